import {
  BAD_VALUE,
  FIELD_BYTES,
  HpackTable,
  hasText,
  isFieldValue,
  KINDS,
  kindOfName,
  MAX_TABLE_BYTES,
  OTHER_FIELD,
  TRACEPARENT,
} from './hpack-table.ts'
import type { RequestHead } from './request-head.ts'

/** RFC 7541 6: the first bits of a field's representation. */
const INDEXED = 0x80
const ADDED = 0x40
const RESIZE = 0x20
const IS_HUFFMAN = 0x80

/** No length or index that we accept needs more than four continuation bytes. */
const MAX_INTEGER_SHIFT = 21

/** Longest encoded value that is recognised when it comes again. */
const MEMO_BYTES = 256

class MalformedBlock extends Error {}

/** The last encoded value of a kind of field, and its text. Memos are shared by all connections, since string literals depend on no table. */
class Memo {
  readonly bytes = Buffer.allocUnsafeSlow(MEMO_BYTES)
  length = -1
  isHuffman = false
  text = ''
}
const MEMOS = Array.from({ length: KINDS }, () => new Memo())

/** Buffer for decoded text; whatever is kept is copied out of it. */
let scratch = Buffer.allocUnsafeSlow(4096)

/** Reads the header blocks of one connection. It must see all of them in order, since each may change the table that the next one uses. */
export class HpackDecoder {
  readonly #table = new HpackTable()
  readonly #isTraced: boolean
  #bytes: Buffer = scratch
  #at = 0
  #end = 0
  /** Length of the text that was read last. */
  #textBytes = 0

  /** `isTraced`: the text of `traceparent` is needed. It differs in each call, so it is not decoded needlessly. */
  constructor(isTraced = false) {
    this.#isTraced = isTraced
  }

  /** Adds the fields to the head. Returns false if the block cannot be decoded, after which no later block can be decoded either. */
  decode(bytes: Buffer, from: number, to: number, head: RequestHead): boolean {
    this.#bytes = bytes
    this.#at = from
    this.#end = to
    if (scratch.length < (to - from) * MAX_GROWTH) scratch = Buffer.allocUnsafeSlow((to - from) * MAX_GROWTH)
    try {
      this.#resize()
      while (this.#at < this.#end) this.#field(head)
      return true
    } catch (error) {
      if (error instanceof MalformedBlock) return false
      throw error
    }
  }

  /** RFC 7541 4.2: the table size may change only at the beginning of a block. */
  #resize(): void {
    while (this.#at < this.#end && (this.#bytes[this.#at]! & 0xe0) === RESIZE) {
      const maxBytes = this.#integer(5)
      if (maxBytes > MAX_TABLE_BYTES) throw new MalformedBlock('the table would be too large')
      this.#table.resize(maxBytes)
    }
  }

  #field(head: RequestHead): void {
    const table = this.#table
    const first = this.#bytes[this.#at]!
    if (first >= INDEXED) {
      const index = this.#known(this.#integer(7))
      head.add(table.kind(index), table.value(index), table.nameBytes(index) + table.valueBytes(index) + FIELD_BYTES)
      return
    }
    const isAdded = first >= ADDED
    if (!isAdded && first >= RESIZE) throw new MalformedBlock('a table size update after a field')
    const index = this.#integer(isAdded ? 6 : 4)
    let kind: number
    let nameBytes: number
    if (index === 0) {
      kind = this.#name()
      nameBytes = this.#textBytes
    } else {
      kind = table.kind(this.#known(index))
      nameBytes = table.nameBytes(index)
    }
    const value = this.#value(kind)
    const valueBytes = this.#textBytes
    if (isAdded) table.add(kind, nameBytes, valueBytes, value)
    head.add(kind, value, nameBytes + valueBytes + FIELD_BYTES)
  }

  #known(index: number): number {
    if (!this.#table.has(index)) throw new MalformedBlock('no such field')
    return index
  }

  #name(): number {
    const isHuffman = this.#next() >= IS_HUFFMAN
    const length = this.#length()
    const from = this.#at
    this.#at += length
    if (!isHuffman) {
      this.#textBytes = length
      return this.#kindOf(this.#bytes, from, this.#at)
    }
    this.#textBytes = this.#decodeText(from)
    return this.#kindOf(scratch, 0, this.#textBytes)
  }

  #kindOf(bytes: Buffer, from: number, to: number): number {
    const kind = kindOfName(bytes, from, to)
    return kind === TRACEPARENT && !this.#isTraced ? OTHER_FIELD : kind
  }

  /** Returns the text if fields of this kind have one; otherwise an empty string, or BAD_VALUE. */
  #value(kind: number): string {
    const isHuffman = this.#next() >= IS_HUFFMAN
    const length = this.#length()
    const from = this.#at
    this.#at += length
    if (hasText(kind)) return this.#text(MEMOS[kind]!, from, isHuffman)
    if (!isHuffman) {
      this.#textBytes = length
      return isFieldValue(this.#bytes, from, this.#at) ? '' : BAD_VALUE
    }
    this.#textBytes = this.#decodeText(from)
    return isFieldValue(scratch, 0, this.#textBytes) ? '' : BAD_VALUE
  }

  /** Clients repeat the same values, so the value that came last needs neither decoding nor a new string. */
  #text(memo: Memo, from: number, isHuffman: boolean): string {
    const length = this.#at - from
    if (memo.length === length && memo.isHuffman === isHuffman && startsWith(this.#bytes, from, memo.bytes, length)) {
      this.#textBytes = memo.text.length
      return memo.text
    }
    const decoded = isHuffman ? this.#decodeText(from) : length
    const bytes = isHuffman ? scratch : this.#bytes
    const at = isHuffman ? 0 : from
    this.#textBytes = decoded
    if (!isFieldValue(bytes, at, at + decoded)) return BAD_VALUE
    const text = bytes.toString('latin1', at, at + decoded)
    if (length <= MEMO_BYTES) {
      this.#bytes.copy(memo.bytes, 0, from, this.#at)
      memo.length = length
      memo.isHuffman = isHuffman
      memo.text = text
    }
    return text
  }

  /** Decodes the bytes from `from` up to the current position. Returns how many bytes it wrote to `scratch`. */
  #decodeText(from: number): number {
    const end = decodeHuffman(this.#bytes, from, this.#at, scratch, 0)
    if (end < 0) throw new MalformedBlock('a text is not Huffman-coded')
    return end
  }

  #next(): number {
    if (this.#at === this.#end) throw new MalformedBlock('the block is cut short')
    return this.#bytes[this.#at]!
  }

  #length(): number {
    const length = this.#integer(7)
    if (length > this.#end - this.#at) throw new MalformedBlock('a text is cut short')
    return length
  }

  /** RFC 7541 5.1: an integer is in the low bits of this byte, and continues in further bytes if they are all set. */
  #integer(prefixBits: number): number {
    const max = (1 << prefixBits) - 1
    let value = this.#bytes[this.#at++]! & max
    if (value < max) return value
    for (let shift = 0; shift <= MAX_INTEGER_SHIFT; shift += 7) {
      const byte = this.#next()
      this.#at++
      value += (byte & 0x7f) << shift
      if (byte < 0x80) return value
    }
    throw new MalformedBlock('a number is too long')
  }
}

function startsWith(bytes: Buffer, from: number, memo: Buffer, length: number): boolean {
  for (let i = 0; i < length; i++) if (bytes[from + i] !== memo[i]) return false
  return true
}

/** RFC 7541, appendix B: length of each byte's code in bits, and of EOS at the end. The codes are canonical, so they follow from their lengths. */
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

/** Layout of a transition: the next state after four bits, the byte that they complete, if any, and whether the text may end there. */
const STATE = 0xff
const BYTE_SHIFT = 8
const HAS_BYTE = 1 << 16
const MAY_END = 1 << 17
const INVALID = -1
const NIBBLES = 16
const TRANSITIONS = transitions()

/** The shortest code has five bits, so a byte of code stands for fewer than two bytes of text. */
const MAX_GROWTH = 2

/** Decodes to `target`, starting at `at`. Returns where the text ends in `target`, or -1 if the code is malformed. */
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

/** Walks the code tree by four bits from each inner node, which is a state. No code is shorter than five bits, so a step completes at most one byte. */
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
  /** Two children for each inner node: the number of another inner node, or a leaf. */
  readonly children: number[]
  /** RFC 7541 5.2: the last byte is padded with up to seven bits of the EOS code, which are all 1. */
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
