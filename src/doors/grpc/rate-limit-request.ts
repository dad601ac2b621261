import { descriptorOf, type LimitCall, type LimitDescriptor } from '../../engine/descriptors/descriptor-call.ts'
import { ProtobufReader } from './protobuf-reader.ts'

/** More than any gateway sends. These limits bound the cost of one call. */
const MAX_DESCRIPTORS = 100
const MAX_ENTRIES = 64

/** Thrown for a message that can be read, but does not ask for anything that can be decided. */
export class InvalidCall extends Error {}

export interface RateLimitRequest extends LimitCall {
  /** Number of limits that the caller sent along. They are ignored, since callers may not choose their limits. */
  readonly ignoredLimits: number
}

/** Reads `envoy.service.ratelimit.v3.RateLimitRequest`. */
export class RateLimitRequestReader {
  readonly #reader = new ProtobufReader()
  #ignoredLimits = 0
  #hits = 0

  /** Throws MalformedMessage or InvalidCall, whose message is meant for the caller. */
  read(message: Uint8Array): RateLimitRequest {
    this.#reader.begin(message)
    try {
      return this.#read()
    } finally {
      this.#reader.clear()
    }
  }

  #read(): RateLimitRequest {
    const reader = this.#reader
    const found: FoundDescriptor[] = []
    let domain = ''
    this.#ignoredLimits = 0
    this.#hits = 0
    for (let field = reader.next(); field !== 0; field = reader.next()) {
      if (field === 1) domain = reader.knownText()
      else if (field === 2) {
        if (found.length === MAX_DESCRIPTORS) throw new InvalidCall(`expected at most ${MAX_DESCRIPTORS} descriptors`)
        found.push(this.#descriptor())
      } else if (field === 3) this.#hits = reader.number()
      else reader.skip()
    }
    if (domain === '') throw new InvalidCall('expected a domain that is not empty')
    if (found.length === 0) throw new InvalidCall('expected at least one descriptor')
    return { domain, descriptors: found.map((each, index) => this.#finished(each, index)), ignoredLimits: this.#ignoredLimits }
  }

  #descriptor(): FoundDescriptor {
    const reader = this.#reader
    const found: FoundDescriptor = { keys: [], values: [], hits: undefined, isNegative: false }
    const outerEnd = reader.enter()
    for (let field = reader.next(); field !== 0; field = reader.next()) {
      if (field === 1) this.#entry(found)
      else if (field === 3) found.hits = this.#wrappedNumber()
      else if (field === 4) found.isNegative = reader.number() !== 0
      else {
        if (field === 2) this.#ignoredLimits++
        reader.skip()
      }
    }
    reader.leave(outerEnd)
    return found
  }

  #entry(found: FoundDescriptor): void {
    if (found.keys.length === MAX_ENTRIES) throw new InvalidCall(`expected at most ${MAX_ENTRIES} entries in a descriptor`)
    const reader = this.#reader
    let key = ''
    let value = ''
    const outerEnd = reader.enter()
    for (let field = reader.next(); field !== 0; field = reader.next()) {
      if (field === 1) key = reader.knownText()
      else if (field === 2) value = reader.text()
      else reader.skip()
    }
    reader.leave(outerEnd)
    if (key === '') throw new InvalidCall('expected a key in each entry of a descriptor')
    // Most descriptors have one entry, and pushing to an empty array would allocate room for many.
    if (found.keys.length === 0) {
      found.keys = [key]
      found.values = [value]
    } else {
      found.keys.push(key)
      found.values.push(value)
    }
  }

  /** Reads a wrapped number. An empty wrapper means 0, which is not the same as an absent one. */
  #wrappedNumber(): number {
    const reader = this.#reader
    let number = 0
    const outerEnd = reader.enter()
    for (let field = reader.next(); field !== 0; field = reader.next()) {
      if (field === 1) number = reader.number()
      else reader.skip()
    }
    reader.leave(outerEnd)
    return number
  }

  /** The descriptor's own hits take precedence over the call's; if neither is set, it counts as one hit. */
  #finished({ keys, values, hits, isNegative }: FoundDescriptor, index: number): LimitDescriptor {
    const descriptor = descriptorOf(keys, values, hits ?? (this.#hits || 1), isNegative)
    if (descriptor === undefined) throw new InvalidCall(`expected each entry of descriptor ${index} only once`)
    return descriptor
  }
}

interface FoundDescriptor {
  keys: string[]
  values: string[]
  /** Undefined if the descriptor has none of its own. */
  hits: number | undefined
  isNegative: boolean
}
