/** RFC 7541, appendix B: how many bits the code of each byte has; the last one marks the end. The codes follow from that: they are canonical. */
export const CODE_BITS = [
  13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10,
  12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
  7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7,
  7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22,
  23, 23, 24, 22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22,
  23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20,
  24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, 30,
]
const END = 256

/** For each state and four bits that come next: the state after them, the byte that they complete, and whether the text may end there. */
const STATE = 0xff
const BYTE_SHIFT = 8
const HAS_BYTE = 1 << 16
const MAY_END = 1 << 17
const INVALID = -1
const NIBBLES = 16
const TRANSITIONS = transitions()

/** A byte of code stands for fewer than two of text. */
export const MAX_GROWTH = 2

/** Decodes to `target`, from `at` on. Returns where the text ends there, or -1 where the code is malformed. */
export function decodeHuffman(bytes: Uint8Array, from: number, to: number, target: Uint8Array, at: number): number {
  let end = at
  let entry = MAY_END
  for (let i = from; i < to; i++) {
    const byte = bytes[i]!
    entry = TRANSITIONS[((entry & STATE) << 4) | (byte >> 4)]!
    if (entry === INVALID) return -1
    if ((entry & HAS_BYTE) !== 0) target[end++] = entry >> BYTE_SHIFT
    entry = TRANSITIONS[((entry & STATE) << 4) | (byte & 15)]!
    if (entry === INVALID) return -1
    if ((entry & HAS_BYTE) !== 0) target[end++] = entry >> BYTE_SHIFT
  }
  return (entry & MAY_END) === 0 ? -1 : end
}

/** Walks the tree of codes, whose inner nodes are the states, by four bits from each. No code is shorter than five. */
function transitions(): Int32Array {
  const { children, isPadding } = codeTree()
  const states = children.length / 2
  const table = new Int32Array(states * NIBBLES).fill(INVALID)
  for (let state = 0; state < states; state++) {
    for (let nibble = 0; nibble < NIBBLES; nibble++) {
      let node = state
      let byte = -1
      for (let bit = 3; bit >= 0 && node >= 0; bit--) {
        const next = children[node * 2 + ((nibble >> bit) & 1)]!
        if (next >= 0) node = next
        else if (next === leaf(END)) node = INVALID
        else {
          byte = -1 - next
          node = 0
        }
      }
      if (node < 0) continue
      table[state * NIBBLES + nibble] = node | (byte < 0 ? 0 : HAS_BYTE | (byte << BYTE_SHIFT)) | (isPadding[node] === true ? MAY_END : 0)
    }
  }
  return table
}

interface CodeTree {
  /** Two for each inner node: the number of an inner node, or a leaf. */
  readonly children: number[]
  /** RFC 7541 5.2: up to seven bits of the end's code, all of them 1, fill the last byte. */
  readonly isPadding: boolean[]
}

function codeTree(): CodeTree {
  const children = [0, 0]
  const isPadding = [true]
  const symbols = CODE_BITS.map((bits, symbol) => ({ bits, symbol })).sort((a, b) => a.bits - b.bits || a.symbol - b.symbol)
  let code = 0
  let codeBits = symbols[0]!.bits
  for (const { bits, symbol } of symbols) {
    code *= 2 ** (bits - codeBits)
    codeBits = bits
    let node = 0
    for (let bit = bits - 1; bit > 0; bit--) {
      const at = node * 2 + ((code >> bit) & 1)
      if (children[at] === 0) {
        children[at] = children.length / 2
        children.push(0, 0)
        isPadding.push(isPadding[node] === true && (at & 1) === 1 && bits - bit < 8)
      }
      node = children[at]!
    }
    children[node * 2 + (code & 1)] = leaf(symbol)
    code++
  }
  return { children, isPadding }
}

function leaf(symbol: number): number {
  return -1 - symbol
}
