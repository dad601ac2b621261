import { CODE_BITS } from '../../../src/doors/grpc/http2/hpack-decoder.ts'
import { STATIC_TABLE } from '../../../src/doors/grpc/http2/hpack-table.ts'
import type { Random } from '../random/random.ts'
import { integer } from './frames.ts'

export type Field = readonly [name: string, value: string]

/** Writes header blocks in any of the ways that HPACK allows. */
export class FieldSpeller {
  readonly #random: Random
  readonly #table: Field[] = []
  #maxBytes = 4096

  constructor(random: Random) {
    this.#random = random
  }

  block(fields: readonly Field[]): Buffer {
    const resized = this.#chance(0.1) ? [this.#resize(this.#random.oneOf([0, 100, 300, 1000, 4096]))] : []
    return Buffer.concat([...resized, ...fields.map((field) => this.#spell(field))])
  }

  #spell([name, value]: Field): Buffer {
    const all = [...STATIC_TABLE, ...this.#table]
    const same = all.findLastIndex((known) => known[0] === name && known[1] === value)
    if (same >= 0 && this.#chance(0.8)) return integer(0x80, 7, same + 1)
    const named = this.#chance(0.8) ? all.findLastIndex((known) => known[0] === name) : -1
    const isAdded = this.#chance(0.5)
    const head = isAdded ? integer(0x40, 6, named + 1) : integer(this.#chance(0.5) ? 0x10 : 0, 4, named + 1)
    const bytes = Buffer.concat([head, named < 0 ? this.#text(name) : Buffer.alloc(0), this.#text(value)])
    if (isAdded) {
      this.#table.unshift([name, value])
      this.#shrink()
    }
    return bytes
  }

  #text(text: string): Buffer {
    const plain = Buffer.from(text, 'latin1')
    if (this.#chance(0.5)) return Buffer.concat([integer(0, 7, plain.length), plain])
    const coded = huffmanCoded(plain)
    return Buffer.concat([integer(0x80, 7, coded.length), coded])
  }

  #resize(maxBytes: number): Buffer {
    this.#maxBytes = maxBytes
    this.#shrink()
    return integer(0x20, 5, maxBytes)
  }

  #shrink(): void {
    const size = (): number => this.#table.reduce((sum, [name, value]) => sum + name.length + value.length + 32, 0)
    while (size() > this.#maxBytes) this.#table.pop()
  }

  #chance(share: number): boolean {
    return this.#random.next() < share
  }
}

const CODES = codes()

function huffmanCoded(bytes: Uint8Array): Buffer {
  const bits = Array.from(bytes, (byte) => CODES[byte]!).join('')
  const padded = bits.padEnd(Math.ceil(bits.length / 8) * 8, '1')
  return Buffer.from((padded.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)))
}

/** As texts of 0 and 1: in the order of their lengths, each is the one before plus 1. */
function codes(): string[] {
  const texts: string[] = []
  let code = 0n
  let last = 0
  const order = CODE_BITS.map((bits, symbol) => ({ bits, symbol })).sort((a, b) => a.bits - b.bits || a.symbol - b.symbol)
  for (const { bits, symbol } of order) {
    code <<= BigInt(bits - last)
    last = bits
    texts[symbol] = code.toString(2).padStart(bits, '0')
    code++
  }
  return texts
}
