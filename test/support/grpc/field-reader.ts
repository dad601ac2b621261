import { decodeHuffman } from '../../../src/doors/grpc/http2/hpack-decoder.ts'
import { STATIC_TABLE } from '../../../src/doors/grpc/http2/hpack-table.ts'

type Field = readonly [name: string, value: string]

/** Reads header blocks in the plainest way: whole texts in an array. */
export class FieldReader {
  readonly #table: Field[] = []
  #maxBytes = 4096
  #bytes: Buffer = Buffer.alloc(0)
  #at = 0

  read(block: Buffer): Field[] {
    this.#bytes = block
    this.#at = 0
    const fields: Field[] = []
    while (this.#at < block.length) {
      const first = block[this.#at]!
      if (first >= 0x80) fields.push(this.#indexed(this.#integer(7)))
      else if (first >= 0x40) fields.push(this.#add(this.#literal(6)))
      else if (first >= 0x20) this.#resize(this.#integer(5))
      else fields.push(this.#literal(4))
    }
    return fields
  }

  #indexed(index: number): Field {
    const field = index <= STATIC_TABLE.length ? STATIC_TABLE[index - 1] : this.#table[index - STATIC_TABLE.length - 1]
    if (field === undefined) throw new Error(`no field ${index}`)
    return field
  }

  #literal(prefixBits: number): Field {
    const index = this.#integer(prefixBits)
    const name = index === 0 ? this.#text() : this.#indexed(index)[0]
    return [name, this.#text()]
  }

  #add(field: Field): Field {
    this.#table.unshift(field)
    this.#resize(this.#maxBytes)
    return field
  }

  #resize(maxBytes: number): void {
    this.#maxBytes = maxBytes
    const size = (): number => this.#table.reduce((sum, [name, value]) => sum + name.length + value.length + 32, 0)
    while (size() > maxBytes) this.#table.pop()
  }

  #text(): string {
    const isHuffman = this.#bytes[this.#at]! >= 0x80
    const length = this.#integer(7)
    const bytes = this.#bytes.subarray(this.#at, this.#at + length)
    this.#at += length
    if (!isHuffman) return bytes.toString('latin1')
    const text = Buffer.alloc(length * 2)
    return text.toString('latin1', 0, decodeHuffman(bytes, 0, length, text, 0))
  }

  #integer(prefixBits: number): number {
    const max = 2 ** prefixBits - 1
    let value = this.#bytes[this.#at++]! & max
    if (value < max) return value
    for (let factor = 1; ; factor *= 128) {
      const byte = this.#bytes[this.#at++]!
      value += (byte & 127) * factor
      if (byte < 128) return value
    }
  }
}
