"""Where things of a kind are often found in ALFWorld, counted in its train games: what a player may know beforehand.

A kind of place has, for a kind of thing, the share of its places that hold one, over the rooms that have one; half
of that if places of the kind are mostly closed, since it then takes two turns to look. Kinds of places stand in
falling order, down to a share of 1 in 100. A test counts again.
"""

CLOSED = frozenset(("cabinet", "drawer", "fridge", "microwave", "safe"))
"""Kinds of places that are mostly closed when a game begins."""

_ORDERS = """
alarmclock: diningtable countertop desk dresser sidetable shelf
apple: diningtable garbagecan sidetable countertop fridge sinkbasin microwave
book: bed coffeetable desk countertop diningtable dresser sofa armchair tvstand sidetable cabinet drawer shelf
bowl: desk coffeetable tvstand diningtable dresser countertop fridge shelf sinkbasin sidetable cabinet microwave
box: diningtable desk coffeetable sofa tvstand dresser ottoman sidetable shelf cabinet armchair
bread: diningtable countertop fridge sidetable
butterknife: diningtable countertop sidetable sinkbasin drawer
candle: sidetable countertop toilet tvstand coffeetable diningtable dresser shelf cart cabinet drawer
cd: diningtable dresser desk sidetable garbagecan armchair drawer shelf cabinet safe
cellphone: bed diningtable desk coffeetable dresser tvstand countertop sofa ottoman sidetable armchair safe shelf drawer
cloth: bathtubbasin dresser countertop cart shelf cabinet sinkbasin drawer toilet sidetable
creditcard: desk tvstand dresser diningtable countertop sofa coffeetable sidetable armchair ottoman shelf drawer
cup: diningtable sidetable sinkbasin fridge countertop microwave shelf cabinet
desklamp: sidetable desk dresser coffeetable shelf
dishsponge: bathtubbasin diningtable countertop cart sinkbasin toilet garbagecan shelf sidetable drawer cabinet
egg: diningtable sinkbasin garbagecan fridge countertop sidetable microwave
fork: diningtable countertop sinkbasin sidetable drawer
glassbottle: diningtable sinkbasin countertop garbagecan shelf fridge cabinet
handtowel: handtowelholder countertop
kettle: diningtable stoveburner countertop sinkbasin cabinet
keychain: desk dresser tvstand diningtable coffeetable sidetable safe sofa ottoman armchair shelf countertop drawer
knife: diningtable countertop sidetable sinkbasin drawer
ladle: diningtable countertop sinkbasin drawer cabinet
laptop: bed countertop diningtable desk coffeetable sofa tvstand dresser ottoman armchair sidetable
lettuce: diningtable countertop fridge sidetable sinkbasin garbagecan
mug: desk coffeemachine dresser diningtable countertop sidetable sinkbasin fridge microwave shelf cabinet
newspaper: diningtable dresser sofa coffeetable ottoman sidetable tvstand shelf armchair
pan: countertop stoveburner diningtable fridge
pen: desk diningtable dresser coffeetable countertop sidetable tvstand shelf garbagecan drawer
pencil: desk diningtable coffeetable dresser sidetable countertop tvstand shelf garbagecan drawer
peppershaker: diningtable countertop sidetable shelf drawer cabinet
pillow: bed sofa armchair ottoman
plate: diningtable coffeetable countertop tvstand dresser sidetable fridge shelf sinkbasin cabinet
pot: stoveburner countertop diningtable fridge shelf
potato: diningtable countertop sinkbasin fridge sidetable garbagecan microwave
remotecontrol: countertop desk tvstand coffeetable dresser diningtable sofa sidetable ottoman armchair shelf drawer
saltshaker: diningtable countertop sidetable shelf cabinet drawer
soapbar: sidetable bathtubbasin countertop toilet sinkbasin cart shelf garbagecan cabinet drawer
soapbottle: diningtable dresser toilet countertop garbagecan sidetable cart shelf cabinet
spatula: diningtable countertop sinkbasin sidetable drawer
spoon: diningtable countertop sinkbasin sidetable drawer
spraybottle: sidetable countertop toilet cart dresser diningtable shelf garbagecan cabinet
statue: diningtable coffeetable tvstand desk dresser countertop sidetable shelf
tissuebox: countertop coffeetable desk diningtable tvstand cart shelf sidetable dresser cabinet toilet drawer garbagecan
toiletpaper: toilet countertop dresser sidetable toiletpaperhanger cart shelf garbagecan cabinet drawer
tomato: diningtable fridge countertop garbagecan sidetable sinkbasin
vase: dresser coffeetable diningtable desk tvstand countertop sidetable shelf cabinet
watch: tvstand desk diningtable dresser coffeetable sidetable shelf drawer
wateringcan: coffeetable shelf sidetable
winebottle: diningtable countertop garbagecan shelf cabinet fridge sidetable
"""

LIKELY: dict[str, tuple[str, ...]] = {
    thing: tuple(places.split()) for thing, places in (line.split(": ") for line in _ORDERS.split("\n") if line)
}
"""Kind of thing -> kinds of places, the likeliest first."""
