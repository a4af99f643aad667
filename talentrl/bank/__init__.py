"""Skills, talents, and the bank that holds them."""

from talentrl.bank.bank import SkillBank
from talentrl.bank.frontmatter import BankError
from talentrl.bank.skill import Skill, read_skill, write_skill
from talentrl.bank.talent import Talent, read_talent, write_talent

__all__ = [
    "BankError",
    "Skill",
    "SkillBank",
    "Talent",
    "read_skill",
    "read_talent",
    "write_skill",
    "write_talent",
]
