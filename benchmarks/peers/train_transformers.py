"""Train Hugging Face's MarianMTModel by `Seq2SeqTrainer` for a given time and translate a test set.

    PYTHON train_transformers.py TEXT OUT

TEXT has train, validation and test files, OUT `pieces.model` and `shape.json` (sizes, seconds);
`OUT/translations` is written. Printed is one line of JSON. The trainer validates every tenth of the
time, stops when it is over, and the checkpoint with the least validation loss is used.
"""

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    MarianConfig,
    MarianMTModel,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    TrainerCallback,
    TrainerControl,
    TrainerState,
)

sys.path.insert(0, str(Path(__file__).parents[1]))

from record import read_lines

ROWS = 64
"""Sentences of a batch; the trainer has no batches by tokens."""
LONGEST = 128
BEAM = 5

Example = dict[str, list[int]]


class TimeLimit(TrainerCallback):
    """Stops training, validates and saves by the clock."""

    def __init__(self, seconds: float) -> None:
        self.began, self.seconds, self.validations = time.monotonic(), seconds, 1

    def on_step_end(
        self, args: object, state: TrainerState, control: TrainerControl, **_: object
    ) -> None:
        """Ask for a validation and a checkpoint at each tenth of the time."""
        elapsed = time.monotonic() - self.began
        if elapsed >= self.seconds * self.validations / 10:
            self.validations += 1
            control.should_evaluate = control.should_save = True
        control.should_training_stop = elapsed >= self.seconds


def main() -> None:
    """Train, translate, print what was done."""
    text, out = map(Path, sys.argv[1:3])
    shape = json.loads((out / "shape.json").read_text())
    pieces = sentencepiece.SentencePieceProcessor(model_file=str(out / "pieces.model"))
    limit = TimeLimit(shape["seconds"])  # encoding the corpus counts
    trainer = Seq2SeqTrainer(
        model=build_model(shape, pieces),
        args=arguments_of(out),
        train_dataset=examples(text, "train", pieces),
        eval_dataset=examples(text, "validation", pieces),
        data_collator=lambda rows: collate(rows, pieces.pad_id()),
        callbacks=[limit],
    )
    trainer.train()
    seconds = time.monotonic() - limit.began
    validations = [entry for entry in trainer.state.log_history if "eval_loss" in entry]
    best = min(validations, key=lambda entry: entry["eval_loss"])["step"]
    model = MarianMTModel.from_pretrained(out / "checkpoints" / f"checkpoint-{best}")
    translations = translate(model, pieces, read_lines(text / "test.en"))
    (out / "translations").write_text("".join(f"{line}\n" for line in translations))
    print(
        json.dumps(
            {
                "trained_seconds": round(seconds, 1),
                "updates": trainer.state.global_step,
                "best_update": best,
                "parameters": model.num_parameters(),
                "decoding": f"beam {BEAM}",
                "version": version("transformers"),
            }
        )
    )


def build_model(shape: dict[str, Any], pieces: Any) -> MarianMTModel:
    """A model of the given sizes, not trained."""
    return MarianMTModel(
        MarianConfig(
            vocab_size=pieces.get_piece_size(),
            d_model=shape["d_model"],
            encoder_layers=shape["encoder_layers"],
            decoder_layers=shape["decoder_layers"],
            encoder_ffn_dim=shape["d_ff"],
            decoder_ffn_dim=shape["d_ff"],
            encoder_attention_heads=shape["heads"],
            decoder_attention_heads=shape["heads"],
            activation_function="relu",
            dropout=shape["dropout"],
            max_position_embeddings=2 * LONGEST,
            scale_embedding=True,
            pad_token_id=pieces.pad_id(),
            eos_token_id=pieces.eos_id(),
            bos_token_id=pieces.bos_id(),
            decoder_start_token_id=pieces.pad_id(),
            forced_eos_token_id=None,
        )
    )


def arguments_of(out: Path) -> Seq2SeqTrainingArguments:
    """Adam, warmup, an inverse square root and label smoothing, as for a Transformer."""
    return Seq2SeqTrainingArguments(
        output_dir=str(out / "checkpoints"),
        per_device_train_batch_size=ROWS,
        per_device_eval_batch_size=ROWS,
        learning_rate=1e-3,
        lr_scheduler_type="inverse_sqrt",
        warmup_steps=1000,
        adam_beta2=0.98,
        label_smoothing_factor=0.1,
        max_steps=10_000_000,  # the time ends training
        train_sampling_strategy="group_by_length",
        eval_strategy="no",  # `TimeLimit` asks
        save_strategy="no",
        logging_steps=200,
        report_to="none",
        use_cpu=True,
        dataloader_num_workers=0,
        seed=1,
    )


def examples(text: Path, part: str, pieces: Any) -> list[Example]:
    """The pairs of a part, as pieces; training pairs that are too long are left out."""
    sides = [
        pieces.encode(read_lines(text / f"{part}.{side}"), add_eos=True) for side in ("en", "de")
    ]
    return [
        {"input_ids": source, "labels": target}
        for source, target in zip(*sides, strict=True)
        if max(len(source), len(target)) <= LONGEST
    ]


def collate(rows: list[Example], pad: int) -> dict[str, torch.Tensor]:
    """A batch; the decoder reads the target shifted right, the loss ignores -100."""
    sides = [[torch.tensor(row[name]) for row in rows] for name in ("input_ids", "labels")]
    source, target = (pad_sequence(side, batch_first=True, padding_value=pad) for side in sides)
    return {
        "input_ids": source,
        "attention_mask": (source != pad).long(),
        "decoder_input_ids": torch.nn.functional.pad(target, (1, -1), value=pad),
        "labels": target.masked_fill(target == pad, -100),
    }


@torch.inference_mode()
def translate(model: Any, pieces: Any, sources: list[str]) -> list[str]:
    """Translate with a beam."""
    model.eval()
    translations: list[str] = []
    for first in range(0, len(sources), ROWS):
        encoded = pieces.encode(sources[first : first + ROWS], add_eos=True)
        rows = [{"input_ids": ids[:LONGEST], "labels": [pieces.eos_id()]} for ids in encoded]
        batch = collate(rows, pieces.pad_id())
        source = {name: batch[name] for name in ("input_ids", "attention_mask")}
        generated = model.generate(**source, num_beams=BEAM, max_length=LONGEST)
        special = {pieces.pad_id(), pieces.eos_id(), pieces.bos_id()}
        kept = [[id for id in row if id not in special] for row in generated.tolist()]
        translations += pieces.decode(kept)
    return translations


if __name__ == "__main__":
    main()
