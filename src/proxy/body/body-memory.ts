import { clientAddress, type TrustedProxies } from '../../request/client-address.ts'
import type { RequestView } from '../../request/view.ts'
import { HalfSipHash, SubjectWords } from '../../store/subject.ts'
import { type Address, subjectText } from '../../text/address.ts'
import type { Peer } from '../downstream.ts'
import { cellsOf, countedBytes, forgetWorker, type MemoryHolder, type MemoryHolders, MemoryPart, partWords } from './memory-part.ts'

/** Bodies of up to this size have a part of the memory to themselves. */
const SMALL_BODY_BYTES = 64 * 1024
/** Fraction of the memory that is reserved for small bodies. */
const SMALL_PART = 1 / 8
/** Fraction of the memory that the bodies of requests may hold that wait for a rule. */
const WAITING_PART = 1 / 4
/** Fraction of a part that one caller may hold. A caller may always hold one body, even if that is larger. */
const SHARE = 1 / 4

export interface BodyMemoryOptions {
  readonly bodyMemoryBytes: number
  /** Limit for one body, which always fits into the part that is not reserved for small ones. */
  readonly maxBodyBytes: number
  /** Hash key that callers do not know, so that they cannot aim at the cells of others. */
  readonly hashKey: readonly [number, number]
}

/** The memory of bodies that are read for token budgets, in all workers together: one part for small bodies, and the rest for all. */
export class BodyMemory {
  readonly small: MemoryPart
  readonly rest: MemoryPart
  readonly #smallFirst: readonly MemoryPart[]
  readonly #restOnly: readonly MemoryPart[]
  readonly #waitingBytes: number
  readonly #hash: HalfSipHash
  readonly #subject = new SubjectWords()

  /** Workers are numbered from 1. */
  constructor(buffer: SharedArrayBuffer, worker: number, options: BodyMemoryOptions) {
    const { bodyMemoryBytes, maxBodyBytes, hashKey } = options
    const smallBytes = smallPartBytes(bodyMemoryBytes, maxBodyBytes)
    const restBytes = bodyMemoryBytes - smallBytes
    const [small, rest] = partsOf(buffer)
    this.small = new MemoryPart(small, worker, smallBytes, Math.max(smallBytes * SHARE, SMALL_BODY_BYTES))
    this.rest = new MemoryPart(rest, worker, restBytes, Math.max(restBytes * SHARE, maxBodyBytes))
    this.#waitingBytes = bodyMemoryBytes * WAITING_PART
    this.#restOnly = [this.rest]
    this.#smallFirst = smallBytes === 0 ? this.#restOnly : [this.small, this.rest]
    this.#hash = new HalfSipHash(hashKey)
  }

  /** Number of bytes that this worker holds. */
  get ownBytes(): number {
    return this.small.ownBytes + this.rest.ownBytes
  }

  /** Notes that a request with a body of this size, which has its memory, begins to wait for a rule. Returns false if it must not. */
  beginWait(bytes: number): boolean {
    return bytes === 0 || this.rest.beginWait(bytes, this.#waitingBytes)
  }

  endWait(bytes: number): void {
    if (bytes > 0) this.rest.endWait(bytes)
  }

  /**
   * Notes that a body of this size, which has its memory, goes to this backend. Returns false if it must not, because the bodies of that backend would hold
   * more than is left for all others. So a backend that hangs takes at most half of what the others leave; one body is always possible.
   */
  beginCall(backend: MemoryHolder, bytes: number): boolean {
    const heldBytes = this.rest.addFor(backend, bytes)
    if (heldBytes <= countedBytes(bytes) || heldBytes <= this.small.freeBytes + this.rest.freeBytes) return true
    this.endCall(backend, bytes)
    return false
  }

  endCall(backend: MemoryHolder, bytes: number): void {
    this.rest.removeFor(backend, bytes)
  }

  /** Returns the parts that a body of this size may be in, the best one first. */
  partsFor(bytes: number): readonly MemoryPart[] {
    return bytes <= SMALL_BODY_BYTES ? this.#smallFirst : this.#restOnly
  }

  /** Returns the holder with this name, which is a list of strings. */
  holder(name: readonly string[], shares: number): MemoryHolder {
    const subject = this.#subject
    subject.clear()
    subject.addIdentity(name)
    this.#hash.digest(subject.words, subject.length)
    return { cells: cellsOf(this.#hash.low), shares }
  }
}

export function newBodyMemoryBuffer(workers: number): SharedArrayBuffer {
  return new SharedArrayBuffer(2 * partWords(workers) * Int32Array.BYTES_PER_ELEMENT)
}

/** Frees what a dead worker held. */
export function forgetBodies(buffer: SharedArrayBuffer, worker: number): void {
  for (const words of partsOf(buffer)) forgetWorker(words, worker)
}

/** Returns 0 if the part would be too small for one small body, or would leave too little for one large body. */
function smallPartBytes(maxBytes: number, maxBodyBytes: number): number {
  const bytes = Math.floor(Math.min(maxBytes * SMALL_PART, maxBytes - maxBodyBytes))
  return bytes < SMALL_BODY_BYTES ? 0 : bytes
}

function partsOf(buffer: SharedArrayBuffer): readonly [small: Int32Array, rest: Int32Array] {
  const words = new Int32Array(buffer)
  const half = words.length / 2
  return [words.subarray(0, half), words.subarray(half)]
}

/** Shares of one address, whatever limit keys its requests have. */
const ADDRESS_SHARES = 2

/**
 * Returns the holders that a body's memory is counted for. `caller` lists the limit keys of the rules that need the body, with their values; if
 * there are none, the client's address is the caller. Clients choose the values of many keys themselves and can make up as many as they like, so
 * all bodies of one address are bounded as well. Behind a proxy that does not say for whom it forwards, that address is unknown.
 */
export function bodyHolders(
  memory: BodyMemory,
  trustedProxies: TrustedProxies,
  caller: readonly string[],
  view: RequestView,
  peer: Peer,
): MemoryHolders {
  const { address, isClient } = senderOf(view, trustedProxies, peer)
  const holder = memory.holder(caller.length > 0 ? ['caller', ...caller] : ['peer', address], 1)
  return isClient ? [holder, memory.holder(['address', address], ADDRESS_SHARES)] : [holder]
}

/** The address that a request comes from, as far as it is known. */
export interface Sender {
  readonly address: string
  /** False if it is that of a proxy, behind which there may be many clients. */
  readonly isClient: boolean
}

export function senderOf(view: RequestView, trustedProxies: TrustedProxies, peer: Peer): Sender {
  const address = addressOf(view, trustedProxies)
  if (address === undefined) return { address: peer.address, isClient: false }
  return { address: subjectText(address), isClient: !trustedProxies.includes(address) }
}

function addressOf(view: RequestView, trustedProxies: TrustedProxies): Address | undefined {
  const forwardedFor = view.header('x-forwarded-for')
  return typeof forwardedFor === 'string' ? clientAddress(forwardedFor, trustedProxies) : undefined
}
