"""WebShop in text mode, rewritten for speed: the same pages, search and reward, without a browser."""

from talentrl.environments.webshop.environment import WebShopEnvironment
from talentrl.environments.webshop.shop import Shop

__all__ = ["Shop", "WebShopEnvironment"]
