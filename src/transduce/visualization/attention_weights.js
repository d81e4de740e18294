// Attention weights as numbers: selection of kind, layer and head; grouping of pieces into words;
// statistics of a head. Nothing here touches the document.
window.AttentionWeights ??= (() => {
  const START = "<start>";
  const END = "</s>";
  const KINDS = {
    cross: {
      name: "Target → source",
      rows: "target_pieces",
      columns: "source_pieces",
      queries: "target",
      keys: "source",
      about: "Cross-attention: each target piece, when it is predicted, attends to the source.",
    },
    encoder: {
      name: "Source → source",
      rows: "source_pieces",
      columns: "source_pieces",
      queries: "source",
      keys: "source",
      about: "Encoder self-attention: each source piece attends to all source pieces.",
    },
    decoder: {
      name: "Target → target",
      rows: "target_read",
      columns: "target_read",
      queries: "last input",
      keys: "input so far",
      about: "Decoder self-attention: each input piece attends to itself and the pieces before it.",
    },
  };

  const sum = (numbers) => numbers.reduce((total, number) => total + number, 0);
  const mean = (numbers) => sum(numbers) / numbers.length;
  const isEnd = (piece) => piece === START || piece === END;

  // Pieces one by one or grouped into words; the ends of a sentence are words of their own.
  const groupPieces = (pieces, words) => {
    const groups = [];
    pieces.forEach((piece, index) => {
      const last = groups.at(-1);
      if (words && last && !last.isEnd && !isEnd(piece) && !piece.startsWith("▁")) {
        last.text += piece;
        last.indices.push(index);
      } else {
        const text = words ? piece.replace(/^▁/, "") : piece;
        groups.push({ text, indices: [index], isEnd: isEnd(piece) });
      }
    });
    return groups;
  };

  const meanOfHeads = (heads) => heads[0].map((weights, row) =>
    weights.map((_, column) => mean(heads.map((head) => head[row][column]))));

  const headMatrix = (heads, head) => (head === "mean" ? meanOfHeads(heads) : heads[head]);

  // Weights of a word: summed over its keys, averaged over its queries, so a row still sums to 1.
  const groupWeights = (matrix, rows, columns) =>
    rows.map((row) => columns.map((column) => mean(row.indices.map((query) =>
      sum(column.indices.map((key) => matrix[query][key]))))));

  const selectWeights = (data, { kind, layer, head, words, ends }) => {
    const isShown = (group) => ends || !group.isEnd;
    const rows = groupPieces(data[KINDS[kind].rows], words).filter(isShown);
    const columns = groupPieces(data[KINDS[kind].columns], words).filter(isShown);
    const weights = groupWeights(headMatrix(data[kind][layer], head), rows, columns);
    return { rows, columns, weights };
  };

  const entropyBits = (row) =>
    -sum(row.map((weight) => (weight > 0 ? weight * Math.log2(weight) : 0)));

  // Mean entropy of the rows in bits, and the target of most of the weight if there is one.
  const headStatistics = (data, kind, matrix) => {
    const columns = data[KINDS[kind].columns];
    const shareOf = (matches) => mean(matrix.map((weights, row) =>
      sum(weights.filter((_, column) => matches(row, column)))));
    const patterns = [["the ends of the sentence", (_, column) => isEnd(columns[column])]];
    if (kind !== "cross") {
      patterns.push(["the previous piece", (row, column) => column === row - 1]);
      patterns.push(["the piece itself", (row, column) => column === row]);
      patterns.push(["the next piece", (row, column) => column === row + 1]);
    }
    const [pattern, share] = patterns.map(([name, matches]) => [name, shareOf(matches)])
      .reduce((best, candidate) => (candidate[1] > best[1] ? candidate : best));
    return { bits: mean(matrix.map(entropyBits)), pattern: share >= 0.5 ? pattern : "", share };
  };

  // Sharpness of a head: the largest weight of each row outside the sentence ends, averaged.
  const sharpness = (data, kind, matrix) => {
    const columns = data[KINDS[kind].columns];
    const inner = (row) => row.filter((_, column) => !isEnd(columns[column]));
    return mean(matrix.map((row) => Math.max(0, ...inner(row))));
  };

  const sharpestHead = (data, kind) => {
    const candidates = data[kind].flatMap((heads, layer) => heads.map((matrix, head) =>
      ({ layer, head, weight: sharpness(data, kind, matrix) })));
    return candidates.reduce((best, candidate) =>
      (candidate.weight > best.weight ? candidate : best));
  };

  // What each head of a kind does with one piece, strongest first: as a query (side "row") the key
  // that it attends to most, as a key (side "column") the query that attends to it most.
  const headAnswers = (data, kind, view, { side, index }) => {
    const { rows, columns } = view;
    const others = side === "row" ? columns : rows;
    if (!others.length) return []; // an empty translation whose end is hidden
    return data[kind].flatMap((heads, layer) => heads.map((matrix, head) => {
      const weights = side === "row"
        ? groupWeights(matrix, [rows[index]], columns)[0]
        : groupWeights(matrix, rows, [columns[index]]).map(([weight]) => weight);
      const best = weights.indexOf(Math.max(...weights));
      return { layer, head, text: others[best].text, isEnd: others[best].isEnd, weight: weights[best] };
    })).sort((first, second) => first.isEnd - second.isEnd || second.weight - first.weight);
  };

  // The first word "it" (the example of the paper's figure 5) that is a query: its kind of
  // attention and the index of its first piece; null if there is none.
  const findPronoun = (data, kinds = ["cross", "encoder"]) => {
    for (const kind of kinds) {
      const word = groupPieces(data[KINDS[kind].rows], true).find(({ text }) => /^it$/i.test(text));
      if (word) return { kind, piece: word.indices[0] };
    }
    return null;
  };

  return { KINDS, headMatrix, selectWeights, headStatistics, sharpestHead, headAnswers, findPronoun };
})();
