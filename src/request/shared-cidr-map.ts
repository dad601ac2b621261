import type { Address } from '../address.ts'
import { type CidrMap, findPosition, type NetworkLookup } from './cidr-map.ts'

/** A map of networks in shared memory. */
export interface SharedNetworks {
  /** As `findPosition` reads them. */
  readonly nodes: SharedArrayBuffer
  /** The end of each value's text, by position, as 32-bit numbers; then the texts, one after the other, in UTF-8. */
  readonly texts: SharedArrayBuffer
}

const WORD_BYTES = 4

/** In small steps. */
export function* shareNetworks(map: CidrMap<string>): Generator<void, SharedNetworks> {
  const { nodes, values } = map.parts
  const shared = { nodes: new SharedArrayBuffer(nodes.byteLength), texts: yield* shareTexts(values) }
  new Int32Array(shared.nodes).set(nodes)
  return shared
}

function* shareTexts(values: readonly (string | undefined)[]): Generator<void, SharedArrayBuffer> {
  const encoder = new TextEncoder()
  const texts: Uint8Array[] = []
  let size = values.length * WORD_BYTES
  for (const value of values) {
    const text = encoder.encode(value ?? '')
    texts.push(text)
    size += text.length
    yield
  }
  const buffer = new SharedArrayBuffer(size)
  const [ends, bytes] = [new Uint32Array(buffer, 0, values.length), new Uint8Array(buffer)]
  let end = ends.byteLength
  for (const [position, text] of texts.entries()) {
    bytes.set(text, end)
    end += text.length
    ends[position] = end
    yield
  }
  return buffer
}

/** Read only: one thread has built it for all. */
export class SharedCidrMap implements NetworkLookup<string> {
  readonly #nodes: Int32Array
  readonly #texts: SharedArrayBuffer
  /** Values decoded so far, so that a lookup decodes each only once. */
  readonly #values = new Map<number, string>()

  constructor({ nodes, texts }: SharedNetworks) {
    this.#nodes = new Int32Array(nodes)
    this.#texts = texts
  }

  lookup(address: Address): string | undefined {
    const position = findPosition(this.#nodes, address)
    return position === 0 ? undefined : (this.#values.get(position) ?? this.#decode(position))
  }

  #decode(position: number): string {
    const ends = new Uint32Array(this.#texts, 0, position + 1)
    // A copy, because a TextDecoder does not accept shared memory.
    const bytes = new Uint8Array(this.#texts).slice(ends[position - 1], ends[position])
    const value = new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes)
    this.#values.set(position, value)
    return value
  }
}
