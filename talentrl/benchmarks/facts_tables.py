"""Hand-kept tables for `facts`: what the two sources leave out, abbreviate or have wrong."""

# ISO 3166 codes of dependent territories and of places whose status or data the sources disagree about.
NOT_COUNTRIES = frozenset(
    [
        "AN",
        "AQ",
        "AI",
        "AS",
        "AW",
        "AX",
        "BL",
        "BM",
        "BQ",
        "BV",
        "CC",
        "CK",
        "CS",
        "CW",
        "CX",
        "EH",
        "FK",
        "FO",
        "GF",
        "GG",
        "GI",
        "GL",
        "GP",
        "GS",
        "GU",
        "HK",
        "HM",
        "IM",
        "IO",
        "JE",
        "KY",
        "MF",
        "MO",
        "MP",
        "MQ",
        "MS",
        "NC",
        "NF",
        "NU",
        "PF",
        "PM",
        "PN",
        "PR",
        "PS",
        "RE",
        "SH",
        "SJ",
        "SX",
        "TC",
        "TF",
        "TK",
        "UM",
        "VG",
        "VI",
        "WF",
        "XK",
        "YT",
    ]
)

# Countries that lie on two continents, so that either answer would be fair.
TWO_CONTINENTS = frozenset(["AM", "AZ", "CY", "EG", "GE", "KZ", "RU", "TR"])

CONTINENTS = {
    "AF": "Africa",
    "AS": "Asia",
    "EU": "Europe",
    "NA": "North America",
    "OC": "Oceania",
    "SA": "South America",
}

# Renamed since the sources were made.
CAPITALS = {"KZ": "Astana"}

COUNTRY_NAMES = {"NL": "Netherlands", "TL": "East Timor", "VA": "Vatican"}

COUNTRY_ALIASES = {
    "AE": ("UAE",),
    "CD": ("DR Congo", "Congo-Kinshasa"),
    "CG": ("Congo-Brazzaville",),
    "CI": ("Cote d'Ivoire",),
    "CV": ("Cape Verde",),
    "CZ": ("Czech Republic",),
    "GB": ("UK", "Great Britain"),
    "MM": ("Burma",),
    "SZ": ("Swaziland",),
    "TL": ("Timor-Leste",),
    "TR": ("Turkiye",),
    "US": ("United States of America", "USA"),
    "VA": ("Vatican City", "Holy See"),
}

# Names that English puts "the" before.
WITH_ARTICLE = frozenset(
    (
        "Bahamas", "Central African Republic", "Comoros", "Democratic Republic of the Congo",
        "Dominican Republic", "Gambia", "Maldives", "Marshall Islands", "Netherlands", "Philippines",
        "Republic of the Congo", "Seychelles", "Solomon Islands", "United Arab Emirates", "United Kingdom",
        "United States", "Vatican",
    )
)  # fmt: skip

# countryinfo spells these in a rare or wrong way.
DEMONYMS = {
    "AR": "Argentine",
    "BW": "",
    "CV": "Cape Verdean",
    "DJ": "Djiboutian",
    "EC": "Ecuadorian",
    "IS": "Icelandic",
    "KG": "Kyrgyz",
    "KI": "",
    "KM": "Comorian",
    "KN": "",
    "LS": "",
    "MV": "Maldivian",
    "SA": "Saudi",
    "SR": "Surinamese",
    "TJ": "Tajik",
    "UZ": "Uzbek",
    "VU": "",
}

# Currency names that "adjective of the issuer + bare name" would get wrong, by ISO 4217 code.
CURRENCIES = {
    "BAM": "convertible mark",
    "BYN": "Belarusian ruble",
    "CNY": "yuan",
    "EUR": "euro",
    "GBP": "British pound",
    "KHR": "riel",
    "NZD": "New Zealand dollar",
    "QAR": "Qatari riyal",
    "SAR": "Saudi riyal",
    "SBD": "Solomon Islands dollar",
    "TTD": "Trinidad and Tobago dollar",
    "USD": "US dollar",
    "VES": "bolivar",
    "XAF": "Central African franc",
    "XCD": "East Caribbean dollar",
    "XOF": "West African franc",
    "ZWG": "Zimbabwe Gold",
}
# Changing currency while the sources were made.
STALE_CURRENCY = frozenset({"BG"})

LANGUAGES = {
    "am": "Amharic", "ar": "Arabic", "be": "Belarusian", "bg": "Bulgarian", "bn": "Bengali", "cs": "Czech",
    "da": "Danish", "de": "German", "dv": "Dhivehi", "dz": "Dzongkha", "el": "Greek", "en": "English",
    "es": "Spanish", "et": "Estonian", "fa": "Persian", "fi": "Finnish", "fr": "French", "hr": "Croatian",
    "hu": "Hungarian", "id": "Indonesian", "is": "Icelandic", "it": "Italian", "ja": "Japanese",
    "ka": "Georgian", "km": "Khmer", "ko": "Korean", "lo": "Lao", "lt": "Lithuanian", "lv": "Latvian",
    "mk": "Macedonian", "mn": "Mongolian", "ms": "Malay", "my": "Burmese", "ne": "Nepali", "nl": "Dutch",
    "pl": "Polish", "pt": "Portuguese", "ro": "Romanian", "ru": "Russian", "sk": "Slovak", "sl": "Slovene",
    "sq": "Albanian", "sv": "Swedish", "th": "Thai", "tr": "Turkish", "uk": "Ukrainian", "vi": "Vietnamese",
    "zh": "Chinese",
}  # fmt: skip
