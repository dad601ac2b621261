import { BAD_VALUE, hasText, isFieldValue, KINDS, kindOfName, OTHER_FIELD, TRACEPARENT } from './field-kind.ts'
import { FIELD_BYTES, HpackTable, MAX_TABLE_BYTES } from './hpack-table.ts'
import { decodeHuffman, MAX_GROWTH } from './huffman.ts'
import type { RequestHead } from './request-head.ts'

/** RFC 7541 6: how a field begins. */
const INDEXED = 0x80
const ADDED = 0x40
const RESIZE = 0x20
const IS_HUFFMAN = 0x80

/** No length and no number of a field that we accept has more bits. */
const MAX_INTEGER_SHIFT = 21

/** A value that is as long as this, or shorter, is recognised when it comes again. */
const MEMO_BYTES = 256

class MalformedBlock extends Error {}

/** What was last written for a kind of field, and the text that it stands for. The same in every connection. */
class Memo {
  readonly bytes = Buffer.allocUnsafeSlow(MEMO_BYTES)
  length = -1
  isHuffman = false
  text = ''
}
const MEMOS = Array.from({ length: KINDS }, () => new Memo())

/** Where text is decoded; whatever is kept is copied. */
let scratch = Buffer.allocUnsafeSlow(4096)

/** Reads the header blocks of one connection. All of them, in their order: each may change what the next one means. */
export class HpackDecoder {
  readonly #table = new HpackTable()
  readonly #isTraced: boolean
  #bytes: Buffer = scratch
  #at = 0
  #end = 0
  /** Of the text that was read last. */
  #textBytes = 0

  /** `isTraced`: the text of `traceparent` is needed, which is another one in each call. */
  constructor(isTraced = false) {
    this.#isTraced = isTraced
  }

  /** Adds the fields to the head. Returns false for a block that cannot be decoded: nothing after it can be, either. */
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

  /** RFC 7541 4.2: only at the beginning of a block. */
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
    if (!isAdded && first >= RESIZE) throw new MalformedBlock('a change of size behind a field')
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

  /** The text of the kinds that have one; else nothing, or BAD_VALUE. */
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

  /** Callers say the same again and again. What was said last needs no decoding and no new text. */
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

  /** From `from` up to where reading goes on. Returns how many bytes it wrote to `scratch`. */
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

  /** RFC 7541 5.1: the low bits of this byte, and more bytes if they are all set. */
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
