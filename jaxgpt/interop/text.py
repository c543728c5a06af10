"""seam"""

import json
from pathlib import Path

from jaxgpt.data.tokenizer import CharacterTokenizer


def tokenizer_from_path(path: Path):
    p = path / "vocab.json" if path.is_dir() else path
    if p.exists():
        d = json.loads(p.read_text())
        return CharacterTokenizer(tuple(d["chars"] if isinstance(d, dict) else d))
    return None


def write_tokenizer(tokenizer, folder, warn):
    (folder / "vocab.json").write_text(json.dumps(tokenizer.characters))
