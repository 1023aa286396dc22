// The fair split written from docs/fairness.md alone, as proof that the page is sufficient.
// Usage: node fairness.mjs VECTORS.json → the same four lists, answered, as JSON on stdout.
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

const sha256 = (...parts) => {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
};
const div = (a, b) => (a - (a % b)) / b;

// Section 3
const RANGES = [
  ["total_fen", 1e12, "total_out_of_range"],
  ["shares", 1e6, "shares_out_of_range"],
  ["min_fen", 1e12, "min_out_of_range"],
  ["cap_fen", 1e12, "cap_out_of_range"],
];

function refusal(terms) {
  if (terms.version !== 1) return "unknown_version";
  if (terms.kind !== "lucky" && terms.kind !== "equal") return "unknown_kind";
  for (const [field, most, code] of RANGES) {
    const number = terms[field];
    if (field === "cap_fen" && number === null) continue;
    if (!Number.isInteger(number)) return "not_an_integer";
    if (number < 1 || number > most) return code;
  }
  const { total_fen: total, shares, min_fen: min, cap_fen: cap } = terms;
  if (cap !== null && cap < min) return "cap_below_min";
  if (total < min * shares) return "total_below_minimum";
  if (cap !== null && total > cap * shares) return "total_above_cap";
  return null;
}

function canonical(terms) {
  const { version, kind, total_fen: total, shares, min_fen: min, cap_fen: cap } = terms;
  return `redpacket-terms ${version} ${kind} ${total} ${shares} ${min} ${cap ?? "-"}`;
}

// Section 4
class Stream {
  constructor(seed) {
    this.seed = seed;
    this.counter = 0n;
    this.place = 8;
  }

  word() {
    if (this.place === 8) {
      const counter = Buffer.alloc(8);
      counter.writeBigUInt64BE(this.counter++);
      this.block = sha256("redpacket-rng-1", this.seed, counter);
      this.place = 0;
    }
    return this.block.readUInt32BE(4 * this.place++);
  }

  below(b) {
    const wide = b > 2 ** 32;
    const limit = wide ? 2 ** 53 : 2 ** 32;
    for (;;) {
      let x = this.word();
      if (wide) x = (x % 2 ** 21) * 2 ** 32 + this.word();
      const r = x % b;
      if (x - r <= limit - b) return r;
    }
  }
}

// Section 5
function lucky({ total_fen: total, shares: n, min_fen: min, cap_fen: cap }, stream) {
  const list = [];
  const W = (cap ?? total) - min;
  let S = total - min * n;
  for (let k = n; k >= 2; k--) {
    const q = div(2 * S, k);
    const e = q <= W ? stream.below(q + 1) : W - stream.below(div(2 * (W * k - S), k) + 1);
    list.push(min + e);
    S -= e;
  }
  list.push(min + S);
  return list;
}

// Section 6
function equal({ total_fen: total, shares: n }) {
  const base = div(total, n);
  return Array.from({ length: n }, (_, place) => (place < total % n ? base + 1 : base));
}

// Sections 5 to 7
function split(terms, seed) {
  const stream = new Stream(seed);
  const a = terms.kind === "lucky" ? lucky(terms, stream) : equal(terms);
  for (let i = a.length - 1; i >= 1; i--) {
    const j = stream.below(i + 1);
    [a[i], a[j]] = [a[j], a[i]];
  }
  return a;
}

// Section 10, with the commitment of section 8
function answerSplit({ name, terms, seed: hex, amounts: listed }) {
  const seed = Buffer.from(hex, "hex");
  const amounts = split(terms, seed);
  return {
    name,
    terms,
    seed: hex,
    canonical: canonical(terms),
    commitment: sha256(seed, canonical(terms)).toString("hex"),
    ...(listed ? { amounts } : { first: amounts.slice(0, 5), last: amounts.slice(-5) }),
    amounts_sha256: sha256(amounts.join(",")).toString("hex"),
  };
}

function answerWords({ seed, words }) {
  const stream = new Stream(Buffer.from(seed, "hex"));
  return { seed, words: words.map(() => stream.word()) };
}

function answerBelow({ seed, bounds }) {
  const stream = new Stream(Buffer.from(seed, "hex"));
  return { seed, bounds, results: bounds.map((bound) => stream.below(bound)) };
}

const vectors = JSON.parse(readFileSync(process.argv[2], "utf8"));
const answers = {
  words: vectors.words.map(answerWords),
  below: vectors.below.map(answerBelow),
  refused: vectors.refused.map(({ terms }) => ({ terms, code: refusal(terms) })),
  splits: vectors.splits.map(answerSplit),
};
process.stdout.write(JSON.stringify(answers));
