"""Batches: everybody gets his own answer, in order, whatever the others do."""

import asyncio
import random
import threading
import time
from collections.abc import Iterable, Sequence

import pytest

from transduce.inference.translation import Translation
from transduce.inference.translator import Extras, Translator
from transduce.search.interruption import interruption_point
from transduce.serve.batcher import (
    Batcher,
    BatchJob,
    BatchOptions,
    SentenceRequest,
    SentenceResult,
    estimate_work,
)
from transduce.serve.errors import HTTPError

HOW = BatchOptions(beam=1)


class Fake(Translator):
    """Says every text backwards, late; keeps what it was asked."""

    def __init__(self, *, seconds: float = 0.0) -> None:
        self.batches: list[tuple[str, ...]] = []
        self.hows: list[tuple[int | None, float | None, int, bool]] = []
        self.tokens: list[int] = []
        self.started, self.go = threading.Event(), threading.Event()
        self.go.set()
        self._late, self._draw = seconds, random.Random(7)

    def decode(
        self,
        sentences: Iterable[str],
        *,
        beam: int | None,
        alpha: float | None,
        nbest: int,
        extras: Extras,
        prefix: str | Sequence[str],
        batch_tokens: int = 0,
    ) -> list[Translation]:
        given = tuple(sentences)
        self.batches.append(given)
        self.tokens.append(batch_tokens)
        self.hows.append((beam, alpha, nbest, extras.token_scores))
        self.started.set()
        self.go.wait(5)
        time.sleep(self._late * self._draw.random())
        if "bad" in given:
            raise ValueError("this one is bad")
        return [translation_of(text, before) for text, before in zip(given, prefix, strict=True)]

    def alignment(self, translation: Translation) -> str:
        return f"{len(translation.source)}-0"


def translation_of(text: str, prefix: str = "") -> Translation:
    back = prefix + text[::-1]
    return Translation(source=text, text=back, score=0.0, ids=(), pieces=(), log_probs=())


def texts(answers: Sequence[SentenceResult]) -> list[str]:
    return [answer.translation.text for answer in answers]


def ask(*words: str) -> list[SentenceRequest]:
    return [SentenceRequest(word) for word in words]


async def held(batcher: Batcher, fake: Fake) -> "asyncio.Task[list[SentenceResult]]":
    """A request that is being computed until `fake.go` is set."""
    fake.go.clear()
    first = asyncio.create_task(batcher.translate(ask("first"), HOW))
    await asyncio.to_thread(fake.started.wait, 5)
    return first


async def settled() -> None:
    """Let every task do what it can do now."""
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(5))
def test_everybody_gets_his_own_answers_in_order(seed: int) -> None:
    fake = Fake(seconds=0.002)
    batcher = Batcher(fake, max_sentences=7, max_queue=1000)
    draw = random.Random(seed)

    async def client(number: int) -> None:
        for turn in range(draw.randint(1, 7)):
            words = [f"{number}.{turn}.{index}" for index in range(draw.randint(0, 11))]
            how = BatchOptions(beam=draw.choice([1, 2]), nbest=1)
            if draw.random() < 0.2:
                try:
                    await asyncio.wait_for(batcher.translate(ask(*words), how), 0.0005)
                except TimeoutError:
                    continue
            assert texts(await batcher.translate(ask(*words), how)) == [w[::-1] for w in words]

    async def all_clients() -> None:
        await asyncio.gather(*(client(number) for number in range(41)))

    asyncio.run(all_clients())
    batcher.close()

    assert max(map(len, fake.batches)) == 7


def test_what_comes_while_a_batch_computes_is_the_next_batch() -> None:
    fake = Fake()
    batcher = Batcher(fake)

    async def work() -> None:
        first = await held(batcher, fake)
        others = [asyncio.create_task(batcher.translate(ask(word), HOW)) for word in "abc"]
        await settled()
        fake.go.set()
        await asyncio.gather(first, *others)

    asyncio.run(work())
    batcher.close()

    assert fake.batches == [("first",), ("a", "b", "c")]


def test_only_sentences_that_are_asked_in_the_same_way_are_together() -> None:
    fake = Fake()
    batcher = Batcher(fake)

    async def work() -> None:
        first = await held(batcher, fake)
        hows = [
            BatchOptions(beam=2),
            BatchOptions(beam=2, detail=True),
            BatchOptions(beam=2),
            BatchOptions(beam=2, nbest=2),
        ]
        others = [
            asyncio.create_task(batcher.translate(ask(word), how))
            for word, how in zip("abcd", hows, strict=True)
        ]
        await settled()
        fake.go.set()
        await asyncio.gather(first, *others)

    asyncio.run(work())
    batcher.close()

    assert fake.batches[1:] == [("a", "c"), ("b",), ("d",)]
    assert fake.hows[1:] == [(2, None, 1, False), (2, None, 1, True), (2, None, 2, False)]


def test_a_prefix_is_kept_apart_and_the_order_stays() -> None:
    fake = Fake()
    batcher = Batcher(fake)
    requests = [
        SentenceRequest("ab", prefix="So "),
        SentenceRequest("cd"),
        SentenceRequest("ef", align=True),
    ]

    answers = asyncio.run(batcher.translate(requests, HOW))
    batcher.close()

    assert texts(answers) == ["So ba", "dc", "fe"]
    assert [answer.alignment for answer in answers] == ["", "", "2-0"]
    assert fake.batches == [("ab",), ("cd", "ef")]


def test_a_long_request_keeps_no_short_one_waiting() -> None:
    fake = Fake()
    batcher = Batcher(fake, max_sentences=4)

    async def work() -> None:
        first = await held(batcher, fake)
        book = asyncio.create_task(batcher.translate(ask(*"abcdefg"), HOW))
        word = asyncio.create_task(batcher.translate(ask("z"), HOW))
        await settled()
        fake.go.set()
        await word
        assert not book.done()
        assert texts(await book) == list("abcdefg")
        await first

    asyncio.run(work())
    batcher.close()

    assert fake.batches[1:] == [("a", "b", "c", "z"), ("d", "e", "f", "g")]


def test_a_long_sentence_takes_the_room_of_several() -> None:
    fake = Fake()
    batcher = Batcher(fake, max_sentences=7)
    long, longer = "l" * 767, "m" * 7000

    async def work() -> None:
        first = await held(batcher, fake)
        others = [
            asyncio.create_task(batcher.translate(words, HOW))
            for words in (
                ask("a", long),
                ask(longer),
                ask("z"),
                [SentenceRequest("y", prefix=long)],
            )
        ]
        await settled()
        fake.go.set()
        await asyncio.gather(first, *others)

    asyncio.run(work())
    batcher.close()

    assert fake.batches[1:] == [("a", "z"), (longer,), ("y",), (long,)]


def test_a_long_sentence_leaves_room_to_none_but_short_ones() -> None:
    assert [SentenceRequest("a" * n).cost for n in (0, 127, 128, 255, 256)] == [1, 1, 2, 2, 3]
    assert SentenceRequest("a", prefix="b" * 127).cost == 2


def test_a_full_queue_refuses_and_says_when_to_try_again() -> None:
    fake = Fake()
    batcher = Batcher(fake, max_queue=2)

    async def work() -> HTTPError:
        first = await held(batcher, fake)
        others = [asyncio.create_task(batcher.translate(ask(word), HOW)) for word in "ab"]
        await settled()
        with pytest.raises(HTTPError) as refused:
            await batcher.translate(ask("c"), HOW)
        fake.go.set()
        await asyncio.gather(first, *others)
        assert texts(await batcher.translate(ask("d"), HOW)) == ["d"]
        return refused.value

    refusal = asyncio.run(work())
    batcher.close()

    assert refusal.status == 429
    assert refusal.retry_after is not None
    assert 1 <= refusal.retry_after <= 60


def test_who_went_away_is_not_computed_and_makes_room() -> None:
    fake = Fake()
    batcher = Batcher(fake, max_queue=1)
    lengths: list[int] = []
    batcher.on_queue = lengths.append

    async def work() -> None:
        first = await held(batcher, fake)
        gone = asyncio.create_task(batcher.translate(ask("gone"), HOW))
        await settled()
        gone.cancel()
        await settled()
        assert lengths[-1] == 0
        other = asyncio.create_task(batcher.translate(ask("other"), HOW))
        await settled()
        fake.go.set()
        await asyncio.gather(first, other)

    asyncio.run(work())
    batcher.close()

    assert fake.batches == [("first",), ("other",)]


def test_every_change_of_the_queue_is_reported() -> None:
    batcher = Batcher(Fake(), max_sentences=1)
    lengths: list[int] = []
    batcher.on_queue = lengths.append

    asyncio.run(batcher.translate(ask("a", "b"), HOW))
    batcher.close()

    assert lengths == [1, 0, 1, 0, 0]


def test_who_goes_away_while_computed_does_not_hurt_the_others() -> None:
    fake = Fake()
    batcher = Batcher(fake)

    async def work() -> list[SentenceResult]:
        first = await held(batcher, fake)
        first.cancel()
        await settled()
        fake.go.set()
        return await batcher.translate(ask("ab"), HOW)

    answers = asyncio.run(work())
    batcher.close()

    assert texts(answers) == ["ba"]


def test_who_goes_away_in_the_midst_of_a_book_costs_no_further_batch() -> None:
    fake = Fake()
    batcher = Batcher(fake, max_sentences=1)

    async def work() -> None:
        fake.go.clear()
        book = asyncio.create_task(batcher.translate(ask(*"abc"), HOW))
        await asyncio.to_thread(fake.started.wait, 5)
        book.cancel()
        await settled()
        fake.go.set()
        await batcher.translate(ask("z"), HOW)

    asyncio.run(work())
    batcher.close()

    assert fake.batches == [("a",), ("z",)]


def test_who_went_away_is_told_nothing() -> None:
    async def work() -> None:
        job = BatchJob(sentences=ask("ab"))
        job.future.cancel()

        job.resolve()  # would raise, and those behind it would never be told

    asyncio.run(work())


def test_a_bad_sentence_fails_its_own_request_alone() -> None:
    fake = Fake()
    batcher = Batcher(fake)

    async def work() -> list[list[SentenceResult] | BaseException]:
        first = await held(batcher, fake)
        requests = (ask("ab"), ask("ok", "bad"), ask("cd"))
        others = [asyncio.create_task(batcher.translate(words, HOW)) for words in requests]
        await settled()
        fake.go.set()
        await first
        return await asyncio.gather(*others, return_exceptions=True)

    single, two, three = asyncio.run(work())
    batcher.close()

    assert not isinstance(single, BaseException)
    assert not isinstance(three, BaseException)
    assert (texts(single), texts(three)) == (["ba"], ["dc"])
    assert isinstance(two, HTTPError)
    assert (two.status, two.message) == (400, "Invalid request: this one is bad")


def test_other_work_runs_on_the_same_thread_in_turn() -> None:
    fake = Fake()
    batcher = Batcher(fake)

    async def work() -> tuple[str, str]:
        first = await held(batcher, fake)
        name = asyncio.create_task(batcher.run(lambda: threading.current_thread().name))
        await settled()
        assert not name.done()
        fake.go.set()
        await first
        with pytest.raises(ZeroDivisionError):
            await batcher.run(lambda: 1 // 0)
        return await name, await batcher.run(lambda: threading.current_thread().name)

    names = asyncio.run(work())
    batcher.close()

    assert names == ("batcher", "batcher")


def test_draining_finishes_what_was_accepted_and_refuses_the_rest() -> None:
    fake = Fake()
    batcher = Batcher(fake)

    async def work() -> HTTPError:
        first = await held(batcher, fake)
        second = asyncio.create_task(batcher.translate(ask("ab"), HOW))
        await settled()
        drained = asyncio.create_task(asyncio.to_thread(batcher.close))
        await asyncio.sleep(0.01)
        with pytest.raises(HTTPError) as refused:
            await batcher.translate(ask("late"), HOW)
        assert not drained.done()
        fake.go.set()
        await drained
        assert texts(await first) == ["tsrif"]
        assert texts(await second) == ["ba"]
        return refused.value

    assert asyncio.run(work()).status == 503


def test_a_lone_request_to_an_idle_server_waits_for_nobody() -> None:
    fake = Fake()
    batcher = Batcher(fake, wait_s=30.0)

    async def work() -> float:
        await batcher.translate(ask("a"), HOW)
        begun = time.perf_counter()
        await batcher.translate(ask("b"), HOW)
        return time.perf_counter() - begun

    seconds = asyncio.run(work())
    batcher.close()

    assert seconds < 15


def test_after_a_full_batch_the_next_waits_for_those_who_ask_again() -> None:
    fake = Fake()
    batcher = Batcher(fake, wait_s=5.0)

    async def client(word: str) -> None:
        for _ in range(3):
            await batcher.translate(ask(word), HOW)
            await asyncio.sleep(0.005 * (word == "c"))

    async def work() -> None:
        first = await held(batcher, fake)
        others = [asyncio.create_task(client(word)) for word in "abc"]
        await settled()
        fake.go.set()
        await asyncio.gather(first, *others)

    asyncio.run(work())
    batcher.close()

    assert [sorted(batch) for batch in fake.batches[1:]] == [["a", "b", "c"]] * 3


def test_nothing_to_translate_asks_nobody() -> None:
    fake = Fake()
    batcher = Batcher(fake)

    answers = asyncio.run(batcher.translate([], HOW))
    batcher.close()

    assert (answers, fake.batches) == ([], [])


def test_long_work_lets_short_requests_in_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """Alternatives at a long text took a minute of the only thread; all others got 504."""
    monkeypatch.setattr("transduce.serve.batcher._MAX_SECONDS", 0.0)
    fake, done = Fake(), threading.Event()
    batcher = Batcher(fake)

    def search() -> None:
        fake.started.set()
        for _ in range(500):
            if done.is_set():
                return
            interruption_point()
            time.sleep(0.01)

    async def work() -> None:
        long = asyncio.create_task(batcher.run(search, work=100))
        other = asyncio.create_task(batcher.run(lambda: None, work=100))
        await asyncio.to_thread(fake.started.wait, 5)
        assert texts(await batcher.translate(ask("ab"), HOW)) == ["ba"]
        assert not long.done()
        assert not other.done()  # long work never comes between
        done.set()
        await asyncio.gather(long, other)

    asyncio.run(work())
    batcher.close()


def test_work_ends_at_the_next_step_when_no_client_waits() -> None:
    fake, steps = Fake(), list[float]()
    batcher = Batcher(fake)

    def search() -> None:
        fake.started.set()
        for _ in range(500):
            steps.append(time.perf_counter())
            time.sleep(0.01)
            interruption_point()

    async def work() -> list[SentenceResult]:
        long = asyncio.create_task(batcher.run(search))
        await asyncio.to_thread(fake.started.wait, 5)
        long.cancel()
        return await batcher.translate(ask("ab"), HOW)

    assert texts(asyncio.run(work())) == ["ba"]
    batcher.close()
    assert len(steps) < 100


def test_too_much_work_is_refused_with_both_numbers() -> None:
    batcher = Batcher(Fake(), max_work=3)

    batcher.check_work(3)
    with pytest.raises(HTTPError, match=r"request \(4 sentences .*\) exceeds work limit \(3\)"):
        batcher.check_work(4)
    batcher.close()


def test_work_is_sentences_of_typical_length_and_beam() -> None:
    assert estimate_work(127) == 1
    assert estimate_work(1000) == 8
    assert estimate_work(1000, beam=20) == 5 * 8
    assert estimate_work(1000, beam=8, searches=20) == 2 * 20 * 8
    assert estimate_work(127, beam=1) == 1  # greedy search has as many steps


def test_other_work_beyond_the_limit_is_refused_before_it_is_queued() -> None:
    batcher = Batcher(Fake(), max_work=3)

    with pytest.raises(HTTPError, match=r"request \(4 sentences"):
        asyncio.run(batcher.run(lambda: None, work=4))
    batcher.close()


def test_a_queue_full_of_work_refuses_long_requests_and_takes_short_ones() -> None:
    fake = Fake()
    batcher = Batcher(fake, max_work=10)
    ten = ask(*("abcdefghij"))

    async def work() -> HTTPError:
        first = await held(batcher, fake)
        long = [asyncio.create_task(batcher.translate(ten, HOW)) for _ in range(4)]
        await settled()
        short = asyncio.create_task(batcher.translate(ask("z"), HOW))
        await settled()
        with pytest.raises(HTTPError) as refused:
            await batcher.translate(ten, HOW)
        fake.go.set()
        await asyncio.gather(first, short, *long)
        return refused.value

    refusal = asyncio.run(work())
    batcher.close()

    assert refusal.status == 429


def test_a_wide_beam_makes_sentences_long() -> None:
    """They would come between the steps of long work, and keep the short ones waiting."""

    async def work() -> list[bool]:
        jobs = [BatchJob(sentences=ask("a" * 500), options=BatchOptions(beam=b)) for b in (4, 20)]
        return [job.next_is_short for job in jobs]

    assert asyncio.run(work()) == [True, False]


def test_the_longer_the_sentences_the_smaller_the_searches() -> None:
    """They cannot be interrupted: with 62 parts of a long sentence in one, all others waited."""
    fake = Fake()
    batcher = Batcher(fake)

    for length in (100, 300, 1100):
        asyncio.run(batcher.translate(ask("a" * length), HOW))
    batcher.close()

    assert fake.tokens == [8192, 2048, 128]
