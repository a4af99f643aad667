"""Where things of a kind are often found in ALFWorld, counted in its train games: what a player may know beforehand.

A kind of place has, for a kind of thing, the share of its places that hold one, over the rooms that have one; half
of that if places of the kind are mostly closed, since it then takes two turns to look. Kinds of places stand in
falling order, down to a share of 1 in 100. A test counts again.
"""

CLOSED = frozenset(("cabinet", "drawer", "fridge", "microwave", "safe"))
"""Kinds of places that are mostly closed when a game begins."""

_ORDERS = """
alarmclock: diningtable desk countertop dresser sidetable shelf
apple: diningtable sidetable garbagecan fridge countertop sinkbasin microwave
book: bed coffeetable desk diningtable countertop sofa dresser armchair tvstand sidetable cabinet drawer shelf
bowl: desk coffeetable diningtable dresser tvstand fridge countertop shelf sidetable sinkbasin microwave cabinet
box: diningtable desk coffeetable sofa dresser ottoman tvstand sidetable shelf armchair cabinet
bread: diningtable countertop sidetable fridge
butterknife: diningtable countertop sidetable sinkbasin drawer
candle: sidetable countertop toilet coffeetable cart tvstand diningtable dresser shelf cabinet drawer
cd: diningtable dresser desk sidetable garbagecan armchair shelf drawer cabinet safe
cellphone: bed desk diningtable coffeetable ottoman dresser tvstand countertop sofa sidetable armchair safe shelf drawer
cloth: bathtubbasin dresser cart countertop shelf cabinet sinkbasin toilet drawer sidetable
creditcard: desk dresser diningtable tvstand sofa countertop coffeetable sidetable armchair ottoman shelf drawer
cup: diningtable sidetable fridge sinkbasin countertop microwave shelf cabinet
desklamp: sidetable desk dresser coffeetable shelf
dishsponge: bathtubbasin cart diningtable countertop toilet sinkbasin sidetable garbagecan shelf drawer cabinet
egg: diningtable sidetable garbagecan sinkbasin fridge countertop microwave
fork: diningtable countertop sidetable sinkbasin drawer
glassbottle: diningtable countertop sinkbasin garbagecan shelf fridge cabinet
handtowel: handtowelholder countertop
kettle: diningtable stoveburner countertop sinkbasin cabinet
keychain: desk dresser coffeetable diningtable tvstand sidetable ottoman safe sofa armchair shelf countertop drawer
knife: diningtable countertop sidetable sinkbasin drawer
ladle: diningtable countertop sinkbasin drawer cabinet
laptop: bed countertop diningtable desk coffeetable sofa tvstand dresser ottoman armchair sidetable
lettuce: diningtable countertop sidetable fridge sinkbasin garbagecan
mug: desk coffeemachine dresser diningtable sidetable countertop fridge sinkbasin microwave shelf cabinet
newspaper: diningtable dresser coffeetable sofa ottoman sidetable armchair tvstand shelf
pan: countertop stoveburner diningtable fridge
pen: desk diningtable coffeetable dresser countertop sidetable tvstand shelf garbagecan drawer
pencil: diningtable desk coffeetable dresser sidetable countertop tvstand shelf garbagecan drawer
peppershaker: sidetable diningtable countertop shelf drawer cabinet
pillow: bed sofa armchair ottoman
plate: diningtable coffeetable countertop tvstand dresser sidetable fridge shelf sinkbasin cabinet
pot: stoveburner countertop diningtable fridge shelf
potato: diningtable countertop sidetable fridge sinkbasin garbagecan microwave
remotecontrol: countertop desk coffeetable dresser tvstand diningtable sofa ottoman sidetable armchair shelf drawer
saltshaker: diningtable sidetable countertop shelf cabinet drawer
soapbar: sidetable countertop bathtubbasin cart toilet sinkbasin shelf garbagecan cabinet drawer
soapbottle: diningtable dresser toilet countertop sidetable cart garbagecan shelf cabinet
spatula: diningtable countertop sinkbasin sidetable drawer
spoon: diningtable sidetable countertop sinkbasin drawer
spraybottle: sidetable cart toilet countertop dresser diningtable shelf garbagecan cabinet
statue: coffeetable desk diningtable dresser tvstand countertop sidetable shelf
tissuebox: coffeetable desk countertop diningtable cart tvstand shelf sidetable dresser cabinet toilet drawer garbagecan
toiletpaper: toilet sidetable countertop dresser cart toiletpaperhanger shelf garbagecan cabinet drawer
tomato: diningtable sidetable fridge countertop garbagecan sinkbasin
vase: dresser coffeetable desk diningtable tvstand countertop sidetable shelf cabinet
watch: tvstand desk diningtable dresser coffeetable sidetable shelf drawer
wateringcan: coffeetable shelf sidetable
winebottle: diningtable countertop garbagecan shelf sidetable cabinet fridge
"""

LIKELY: dict[str, tuple[str, ...]] = {
    thing: tuple(places.split()) for thing, places in (line.split(": ") for line in _ORDERS.split("\n") if line)
}
"""Kind of thing -> kinds of places, the likeliest first."""
