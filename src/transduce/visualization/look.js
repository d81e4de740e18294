// What was looked at, as numbers: one choice of kind, layer and head; pieces joined to words.
// Nothing here touches the document.
window.Look ??= (() => {
  const START = "<start>";
  const END = "</s>";
  const KINDS = {
    cross: {
      name: "Target → source",
      rows: "target_pieces",
      columns: "source_pieces",
      looks: "target",
      looked: "source",
      about: "A piece of the target, as it is about to be said, looks at the source.",
    },
    encoder: {
      name: "Source → source",
      rows: "source_pieces",
      columns: "source_pieces",
      looks: "source",
      looked: "source",
      about: "A piece of the source looks at the whole source, itself among it.",
    },
    decoder: {
      name: "Target → target",
      rows: "target_read",
      columns: "target_read",
      looks: "read last",
      looked: "read so far",
      about: "What the decoder has read last looks at itself and at what stands before it.",
    },
  };

  const sum = (numbers) => numbers.reduce((total, one) => total + one, 0);
  const mean = (numbers) => sum(numbers) / numbers.length;
  const isEnd = (piece) => piece === START || piece === END;

  // Pieces as they stand, or joined to words: the ends of a sentence are words of their own.
  const groups = (pieces, words) => {
    const found = [];
    pieces.forEach((piece, place) => {
      const last = found.at(-1);
      if (words && last && !last.end && !isEnd(piece) && !piece.startsWith("▁")) {
        last.text += piece;
        last.places.push(place);
      } else {
        const text = words ? piece.replace(/^▁/, "") : piece;
        found.push({ text, places: [place], end: isEnd(piece) });
      }
    });
    return found;
  };

  const meanOfHeads = (heads) =>
    heads[0].map((row, at) => row.map((_, column) => mean(heads.map((one) => one[at][column]))));

  const chosen = (heads, head) => (head === "mean" ? meanOfHeads(heads) : heads[head]);

  // A word has its columns' weights summed and its rows' averaged: a row still sums to 1.
  const joined = (matrix, rows, columns) =>
    rows.map((row) => columns.map((column) =>
      mean(row.places.map((one) => sum(column.places.map((other) => matrix[one][other]))))));

  const seen = (data, { kind, layer, head, words, ends }) => {
    const stays = (group) => ends || !group.end;
    const rows = groups(data[KINDS[kind].rows], words).filter(stays);
    const columns = groups(data[KINDS[kind].columns], words).filter(stays);
    const weights = joined(chosen(data[kind][layer], head), rows, columns);
    return { rows, columns, weights };
  };

  const bits = (row) => -sum(row.map((one) => (one > 0 ? one * Math.log2(one) : 0)));

  // How spread a head's looks are (bits a row), and where most of them go if they go one way.
  const habit = (data, kind, matrix) => {
    const columns = data[KINDS[kind].columns];
    const share = (wanted) =>
      mean(matrix.map((row, at) => sum(row.filter((_, place) => wanted(at, place)))));
    const ways = [["at the ends of the sentence", (_, place) => isEnd(columns[place])]];
    if (kind !== "cross") {
      ways.push(["at the piece before", (at, place) => place === at - 1]);
      ways.push(["at itself", (at, place) => place === at]);
      ways.push(["at the piece after", (at, place) => place === at + 1]);
    }
    const [where, most] = ways.map(([name, wanted]) => [name, share(wanted)])
      .reduce((best, one) => (one[1] > best[1] ? one : best));
    return { bits: mean(matrix.map(bits)), where: most >= 0.5 ? where : "", share: most };
  };

  // How clearly a head points: the greatest weight of each row outside the ends, on average.
  const clearness = (data, kind, matrix) => {
    const columns = data[KINDS[kind].columns];
    const inner = (row) => row.filter((_, place) => !isEnd(columns[place]));
    return mean(matrix.map((row) => Math.max(0, ...inner(row))));
  };

  const clearest = (data, kind) => {
    const all = data[kind].flatMap((heads, layer) => heads.map((matrix, head) =>
      ({ layer, head, share: clearness(data, kind, matrix) })));
    return all.reduce((best, one) => (one.share > best.share ? one : best));
  };

  return { KINDS, groups, chosen, seen, habit, clearest };
})();
