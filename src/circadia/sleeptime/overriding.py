"""Finds what tells a model to leave its rules, in the languages in which it is tried (SLEEP-50).

Words prove nothing: who wants to gets past them. Behind them stands that notes are fenced as data wherever a model
reads them; this keeps plain attempts from being told on as what somebody knows.
"""

import html
import re
import unicodedata
from typing import Final

_WHICH: Final = (
    "(?:all|any|every|these|those|the|your|its|previous|prior|earlier|above|preceding|former|existing|initial|original)"
)
_RULES: Final = (
    r"(?:instructions?|rules|prompts?|guidelines|guidance|directives|directions|polic(?:y|ies)|restrictions|orders)"
)
_GAP: Final = r"[\s_-]+"
_ENGLISH: Final = re.compile(
    rf"\b(?:ignor(?:e|ing)|disregard(?:ing)?|forget|override|bypass){_GAP}(?:[\w'\u2019]+[\s,_-]+){{0,6}}"
    r"(?:instructions?|rules|prompts?|guidelines|directives)\b"
    rf"|\b(?:ignore|disregard|forget|override|bypass|neglect|discard|skip|set{_GAP}aside|pay{_GAP}no{_GAP}(?:attention|heed){_GAP}to"
    rf"|(?:do{_GAP}not|don['\u2019]?t|stop|never|no{_GAP}longer){_GAP}(?:follow|obey|heed|comply{_GAP}with)(?:ing)?)"
    rf"{_GAP}(?:{_WHICH}{_GAP}(?:of{_GAP})?)+(?:[\w'\u2019]+{_GAP}){{0,2}}{_RULES}\b"
    rf"|\b(?:ignore|disregard|forget){_GAP}(?:all|everything|anything|whatever|what){_GAP}(?:that{_GAP}|is{_GAP}|was{_GAP}|came{_GAP})*"
    r"(?:above|before|prior|previous|you(?:['\u2019]ve|\s+(?:have|had|were|know|are)))\b"
    rf"|\b(?:your|system){_GAP}(?:[\w'\u2019]+{_GAP}){{0,2}}{_RULES}{_GAP}(?:(?:is|are|do|does|has|have|been|now|hereby){_GAP})*"
    rf"(?:void|cancel+ed|obsolete|superseded|revoked|lifted|invalid|suspended|(?:no{_GAP}longer|not|n['\u2019]t){_GAP}(?:apply|valid|binding))"
    r"|\byou are now (?:an? |the |in |dan\b)|\byou (?:must|will|shall) (?:now )?act as\b"
    r"|\b(?:from now on|henceforth)\b[^.\n]{0,40}\byou\b[^.\n]{0,30}\b(?:obey|serve|answer only to|take orders)\b"
    rf"|\b(?:act|behave|answer|respond|pretend)\b[^.\n]{{0,20}}\byou (?:had|have|were under|are under) no {_RULES}"
    rf"|\b(?:new|updated|real|true) (?:[\w]+ )?{_RULES}\s*:"
    r"|\b(?:reveal|print|repeat|show|output|leak|display|disclose)\s+(?:[\w'\u2019]+\s+){0,4}(?:system|hidden|initial)\s+"
    r"(?:prompt|instructions|message)"
)
_SPACED: Final = (
    ("ignorier|missacht|vergiss|vergesst|verwirf|umgeh|halte dich nicht|haltet euch nicht|befolge nicht|befolge keine",
     "anweisung|regel|vorgabe|instruktion|richtlinie|befehl"),
    ("ignora|ignore|ignoren|olvida|olvide|haz caso omiso|haga caso omiso|no sigas|no obedezcas|descarta|desobedece",
     "instruccion|regla|órdenes|ordenes|directri|indicacion"),
    ("ignore|ignorez|ignorer|oublie|ne tiens pas compte|ne tenez pas compte|ne suis pas|ne suis plus|n'obéis"
     "|fais abstraction"
     "|ne respecte", "instruction|règle|consigne|directive|ordres"),
    ("ignora|ignorare|ignorate|dimentica|trascura|non seguire|non tenere conto|disobbedisci",
     "istruzion|regole|direttiv|indicazion|ordini"),
    ("ignore|ignora|ignorar|esqueça|esquece|desconsidere|desconsidera|desobedeça|não siga|não obedeça",
     "instruç|regra|ordens|diretri|comandos"),
    ("negeer|vergeet|volg niet|houd je niet aan", "instructie|regels|richtlijn|opdracht"),
    ("ignorer|glöm|glem|bortse från|se bort fra|följ inte|følg ikke",
     "instruktion|instruks|regler|reglerne|riktlinj|anvisning"),
    ("ignoruj|zignoruj|zapomnij|pomiń|nie przestrzegaj", "instrukcj|zasad|polece|reguł|wytyczn"),
    ("ignoruj|zapomeň|zabudni|nedodržuj", "pokyn|pravidl|pravidiel|instrukc|inštrukc"),
    ("игнорир|проигнорир|забудь"
     "|не обращай|не следуй"
     "|отбрось|ігноруй|игнорирай",
     "инструкц|правил|указани"
     "|інструкц|вказів"),
    ("αγνόησ|αγνοήσ|ξέχασ",
     "οδηγίες|κανόνες|εντολές"),
    ("yok say|görmezden gel|unut|dikkate alma", "talimat|kural|yönerge"),
    ("bỏ qua|quên|phớt lờ|đừng làm theo",
     "hướng dẫn|chỉ dẫn|quy tắc|chỉ thị"),
    ("abaikan|lupakan|jangan ikuti", "instruksi|perintah|aturan|arahan"),
)  # fmt: skip
"""German, Spanish, French, Italian, Portuguese, Dutch, the North's, Polish, Czech, Slovak, Russian, Ukrainian, Greek,
Turkish, Vietnamese, Indonesian: how words begin that mean to leave, and what is to be left."""
_UNSPACED: Final = (
    ("忽略|无视|無視|忘掉|忘记所有|忘记之前|忘记以上|不要遵守|绕过",
     "指令|规则|規則|指示|提示"),
    ("無視|忘れてください|忘れろ|従わないで",
     "指示|命令|ルール|規則|プロンプト"),
    ("무시|잊어|따르지 마", "지시|명령|규칙|지침|프롬프트"),
    ("تجاهل|انسَ|لا تتبع",
     "تعليمات|قواعد|أوامر|توجيهات"),
    ("نادیده بگیر|فراموش کن",
     "دستور|قوانین|قواعد"),
    ("התעלם|התעלמ|שכח ", "הוראות|כללים"),
    ("अनदेख|नज़रअंदाज|भूल जा",
     "निर्देश|नियम"),
    ("เพิกเฉย|ละเว้น|ไม่ต้องสนใจ",
     "คำสั่ง|คำแนะนำ|กฎ"),
)  # fmt: skip
"""The same in Chinese, Japanese, Korean, Arabic, Persian, Hebrew, Hindi and Thai: a word need not stand apart there."""
_NEAR: Final = r"[^.!?\n\u3002\uff01\uff1f]{0,80}"
_SPELLED: Final = re.compile(r"(?<!\w)(\w)[ .*_-](?=\w(?!\w))")
"""A letter that stands apart from the next."""
_LIKE_LATIN: Final = str.maketrans(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u051b\u051d\u04bb\u0261\u03bf\u03b1\u03b9\u03bd\u03c1\u03c5",
    "aeopcyxijsdqwhgoaivpu",
)
"""Letters of Cyrillic and Greek that look like Latin ones."""


def _either_way(pairs: tuple[tuple[str, str], ...], begin: str) -> list[tuple[tuple[str, ...], re.Pattern[str]]]:
    return [
        (
            tuple(verbs.split("|")),
            re.compile(
                rf"{begin}(?:{verbs})(?!s\b){_NEAR}{begin}(?:{rules})|{begin}(?:{rules}){_NEAR}{begin}(?:{verbs})(?!s\b)"
            ),
        )
        for verbs, rules in pairs
    ]


_ABROAD: Final = (*_either_way(_SPACED, r"(?<!\w)"), *_either_way(_UNSPACED, ""))


def written_out(text: str) -> str:
    """Return a text as it is read: marks of HTML and wide letters as what they stand for."""
    return text if text.isascii() and "&" not in text else unicodedata.normalize("NFKC", html.unescape(text))


def overriding(text: str) -> str:
    """Return the part of a text that tells its reader to leave its rules, empty if there is none."""
    small = written_out(text).lower()
    joined = _SPELLED.sub(r"\1", small)
    for each in {small, joined, joined if joined.isascii() else joined.translate(_LIKE_LATIN)}:
        if (found := _ENGLISH.search(each)) is not None:
            return found[0]
    for verbs, pattern in _ABROAD:
        if any(map(small.__contains__, verbs)) and (found := pattern.search(small)) is not None:
            return found[0]
    return ""
