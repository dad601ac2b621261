import { endpointOf, isEmbeddingPath, type LlmEndpoint } from '../../llm/endpoints.ts'
import { boundaryOf, FormRequestReader } from '../../llm/form-request.ts'
import { type LlmRequest, LlmRequestReader } from '../../llm/llm-request.ts'
import { queryValue } from '../../request/encoded-values.ts'
import type { FieldValue } from '../../request/view.ts'
import { normalizePath } from '../../text/path.ts'
import type { WorkSlices } from '../../time/slices.ts'
import type { BodyReader, BodySource, Downstream } from '../downstream.ts'
import type { ProxiedRequest } from '../proxied-request.ts'
import type { BodyClaim, BodyClaims } from './body-claims.ts'
import { BodyScan, brotliWindowBytes, codingOf } from './body-scan.ts'
import { countedBytes, type MemoryHolders } from './memory-part.ts'

/** A body that was read to estimate its cost. */
export interface ReadBody {
  /** The bytes that were received, for the backend. */
  readonly bytes: Buffer
  /** More of the body is still to come. */
  readonly isPartial: boolean
  readonly llm: BodyCost | 'upload_too_slow' | 'body_memory_exhausted'
  /** Releases the memory of the bytes. May be called any number of times. */
  release(): void
}

export interface ReadOptions extends CollectOptions, CostOptions {
  /** Holders that the body's memory is counted for. */
  readonly holders: MemoryHolders
}

interface CostOptions {
  readonly maxBytes: number
  /** Slices in which the body's cost is read. */
  readonly slices: WorkSlices
  /** The path of the backend's URL, which may have the beginning of a path that names a model. */
  readonly basePath: string
}

/**
 * Reads the body for the estimate, as soon as there is memory for it. Returns undefined if the client left before the body was complete. If nothing
 * is enforced, the request does not wait for memory, and its body passes unread.
 */
export async function readBody(
  request: ProxiedRequest,
  downstream: Downstream,
  claims: BodyClaims,
  options: ReadOptions,
): Promise<ReadBody | undefined> {
  const { contentLength } = request
  const { maxBytes, isEnforced, holders } = options
  if (!request.hasBody) {
    inviteBody(request, downstream)
    return { ...UNREAD, isPartial: false, llm: await readCost(EMPTY, request, options) }
  }
  const firstBytes = contentLength ?? Math.min(FIRST_STEP_BYTES, maxBytes)
  if (!isEnforced && firstBytes > maxBytes) {
    inviteBody(request, downstream)
    return { ...UNREAD, llm: 'body_too_large' }
  }
  const claim = claims.open(holders, firstBytes) ?? (await waitForClaim(downstream.body, claims, options, firstBytes))
  if (claim === undefined) return undefined
  if (claim === 'body_memory_exhausted') {
    if (!isEnforced) inviteBody(request, downstream)
    return { ...UNREAD, llm: claim }
  }
  try {
    return await readClaimed(request, downstream, claims, claim, options)
  } catch (error) {
    claim.release()
    throw error
  }
}

/** RFC 9110 10.1.1: a client that waits for permission to send its body gets it now. */
export function inviteBody(request: ProxiedRequest, downstream: Downstream): void {
  if (request.expect !== '' && request.expect.toLowerCase() === '100-continue') downstream.invite()
}

async function readClaimed(
  request: ProxiedRequest,
  downstream: Downstream,
  claims: BodyClaims,
  claim: BodyClaim,
  options: ReadOptions,
): Promise<ReadBody | undefined> {
  inviteBody(request, downstream)
  const outcome = await collect(downstream.body, claim, options)
  if (outcome === undefined) return undefined
  if (typeof outcome === 'string') return { ...UNREAD, llm: outcome }
  const { bytes, isPartial } = outcome
  const llm = isPartial ? 'body_too_large' : await readDecoded(bytes, request, downstream.body, claims, options)
  if (llm !== undefined) return { bytes, isPartial, llm, release: () => claim.release() }
  claim.release()
  return undefined
}

/** Reads the cost of a body after claiming what its decoder will hold. Returns undefined if the client is gone. */
async function readDecoded(
  bytes: Buffer,
  request: ProxiedRequest,
  body: BodySource,
  claims: BodyClaims,
  options: ReadOptions,
): Promise<ReadBody['llm'] | undefined> {
  const { maxBytes, holders } = options
  // Body and decoder together never exceed the largest body, which fits into every share.
  const decoderBytes = Math.min(decoderBytesOf(request, bytes), maxBytes - countedBytes(bytes.length))
  if (decoderBytes <= 0) return readCost(bytes, request, options)
  const claim = claims.open(holders, decoderBytes) ?? (await waitForClaim(body, claims, options, decoderBytes))
  if (claim === undefined || claim === 'body_memory_exhausted') return claim
  claim.complete(decoderBytes)
  try {
    return await readCost(bytes, request, options)
  } finally {
    claim.release()
  }
}

/** Waits for memory while nothing of the body is read. Returns undefined if the client is gone. If nothing is enforced, there is no wait. */
function waitForClaim(
  body: BodySource,
  claims: BodyClaims,
  { holders, isEnforced }: ReadOptions,
  bytes: number,
): Promise<BodyClaim | 'body_memory_exhausted' | undefined> {
  return new Promise((resolve, reject) => {
    if (!isEnforced) return resolve('body_memory_exhausted')
    if (body.isGone) return resolve(undefined)
    let cancel = (): void => {}
    const onGone = (): void => {
      cancel()
      resolve(undefined)
    }
    body.giveTo({ onData: () => {}, onEnd: () => {}, onGone, abandon: reject })
    // `wait` may call back at once.
    cancel = claims.wait(holders, bytes, (claim) => {
      body.giveTo(undefined)
      resolve(claim ?? 'body_memory_exhausted')
    })
  })
}

const EMPTY = Buffer.alloc(0)

const UNREAD = { bytes: EMPTY, isPartial: true, release: () => {} }

interface CollectOptions {
  readonly maxBytes: number
  /** How long the client may pause. */
  readonly idleTimeoutMs: number
  /** If true, a body is refused as soon as no more of it may be held; otherwise what was read so far is passed on. */
  readonly isEnforced: boolean
}

export interface Collected {
  readonly bytes: Buffer
  /** More of the body is to come than may be read. */
  readonly isPartial: boolean
}

/** First claim for a body of unknown length; from then on the claim is doubled. */
const FIRST_STEP_BYTES = 64 * 1024

/** The reason why a body was not read to its end. */
type Refusal = 'body_too_large' | 'upload_too_slow'

/**
 * Reads a body into the memory that is claimed for it. Returns undefined if the client left, or the reason why the body was not read to its end;
 * then the claim is released. Pieces are copied, not kept: a body may come in pieces of one byte, each of which would be an object of a hundred
 * bytes or more.
 */
export function collect(body: BodySource, claim: BodyClaim, options: CollectOptions): Promise<Collected | Refusal | undefined> {
  const collection = new Collection(body, claim, options)
  // A client that has already left does not cause another onGone.
  if (body.isGone) collection.onGone()
  else collection.start()
  return collection.outcome
}

class Collection implements BodyReader {
  readonly outcome: Promise<Collected | Refusal | undefined>
  #resolve!: (outcome: Collected | Refusal | undefined) => void
  #reject!: (error: unknown) => void
  readonly #body: BodySource
  readonly #claim: BodyClaim
  readonly #options: CollectOptions
  readonly #blocks: Blocks
  /** A piece waits for memory. */
  #isWaiting = false
  /** The end came while the last piece was waiting. */
  #hasEnded = false

  constructor(body: BodySource, claim: BodyClaim, options: CollectOptions) {
    this.#body = body
    this.#claim = claim
    this.#options = options
    this.#blocks = new Blocks(claim)
    this.outcome = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  start(): void {
    this.#claim.onEnd = () => (this.#options.isEnforced ? this.#finish('upload_too_slow') : this.#finishPartial())
    this.#body.giveTo(this)
    this.#goOn()
  }

  onData(chunk: Buffer): void {
    const claim = this.#claim
    const { maxBytes, isEnforced } = this.#options
    claim.note(chunk.length)
    const size = this.#blocks.size + chunk.length
    if (size > maxBytes) return isEnforced ? this.#finish('body_too_large') : this.#finishPartial(chunk)
    const nextClaim = Math.min(Math.max(claim.bytes * 2, size), maxBytes)
    if (size <= claim.bytes || claim.grow(nextClaim)) return this.#blocks.add(chunk)
    if (!isEnforced) return this.#finishPartial(chunk)
    this.#waitFor(nextClaim, chunk)
  }

  onEnd(): void {
    // A source may reach its end after the last piece even if it is paused.
    if (this.#isWaiting) this.#hasEnded = true
    else this.#finish({ bytes: this.#blocks.join(), isPartial: false })
  }

  onGone(): void {
    this.#finish(undefined)
  }

  abandon(error: unknown): void {
    this.#leave()
    this.#claim.release()
    this.#reject(error)
  }

  #goOn(): void {
    this.#body.limitIdle(this.#options.idleTimeoutMs)
    this.#body.resume()
  }

  #waitFor(claimBytes: number, chunk: Buffer): void {
    this.#body.pause()
    this.#body.limitIdle(0)
    this.#isWaiting = true
    const kept = Buffer.from(chunk)
    this.#claim.growLater(claimBytes, () => {
      this.#isWaiting = false
      try {
        this.#blocks.add(kept)
        if (this.#hasEnded) this.onEnd()
        else this.#goOn()
      } catch (error) {
        // The error must not reach the code that gave the memory back.
        this.abandon(error)
      }
    })
  }

  #finishPartial(last?: Buffer): void {
    this.#body.pause()
    this.#finish({ bytes: this.#blocks.join(last), isPartial: true })
  }

  #finish(outcome: Collected | Refusal | undefined): void {
    this.#leave()
    if (outcome === undefined || typeof outcome === 'string') this.#claim.release()
    else this.#claim.complete(outcome.bytes.length)
    this.#resolve(outcome)
  }

  /** Detaches from the body. A reader that stays attached would keep the blocks for as long as the request is open. */
  #leave(): void {
    this.#body.giveTo(undefined)
    this.#body.limitIdle(0)
    this.#claim.onEnd = () => {}
  }
}

/** As much memory as is claimed, in a few blocks, each allocated when there is something to put into it. */
class Blocks {
  readonly #claim: BodyClaim
  readonly #blocks: Buffer[] = []
  #capacity = 0
  size = 0

  constructor(claim: BodyClaim) {
    this.#claim = claim
  }

  add(chunk: Buffer): void {
    for (let at = 0; at < chunk.length; ) {
      if (this.size === this.#capacity) this.#extend()
      const block = this.#blocks.at(-1)!
      const copied = chunk.copy(block, block.length - (this.#capacity - this.size), at)
      this.size += copied
      at += copied
    }
  }

  /** Returns everything that was added, followed by `last`. */
  join(last: Buffer = EMPTY): Buffer {
    const blocks = this.#blocks
    if (blocks.length === 1 && last.length === 0 && this.size === this.#capacity) return blocks[0]!
    const free = this.#capacity - this.size
    const end = blocks.pop()
    return Buffer.concat(end === undefined ? [last] : [...blocks, end.subarray(0, end.length - free), last], this.size + last.length)
  }

  #extend(): void {
    const bytes = this.#claim.bytes - this.#capacity
    // Small buffers from Node's pool would each keep the whole pool in memory.
    this.#blocks.push(Buffer.allocUnsafeSlow(bytes))
    this.#capacity += bytes
  }
}

/** The facts that a body's cost depends on, or the reason why they are unknown. */
type BodyCost = LlmRequest | 'body_too_large' | 'bad_request' | 'repeated_descriptor'

export function readCost(bytes: Buffer, request: ProxiedRequest, { maxBytes, slices, basePath }: CostOptions): Promise<BodyCost> {
  const coding = codingOf(request.header('content-encoding'))
  const boundary = coding === 'identity' ? boundaryOf(request.header('content-type'), bytes) : undefined
  // A body that cannot be decoded is counted as it is.
  const endpoint = endpointOf(normalizePath(`${basePath}${normalizePath(request.target)}`))
  const charset = coding === undefined ? 'latin1' : 'utf8'
  const reader = boundary === undefined ? new LlmRequestReader(charset, endpoint) : new FormRequestReader(boundary, endpoint)
  return new Promise((resolve, reject) => {
    const scan = new BodyScan(reader, { coding: coding ?? 'identity', maxBytes, slices, isBorrowed: false, onBroken: reject })
    if (bytes.length > 0) scan.write(bytes)
    scan.end((outcome) => {
      if (outcome === 'read') resolve(withHeadFacts(reader.end(), request, endpoint))
      else resolve(outcome === 'damaged' ? 'bad_request' : 'body_too_large')
    })
  })
}

/** Returns how much memory the decoder may hold besides the body; 0 if that is little. */
function decoderBytesOf(request: ProxiedRequest, bytes: Buffer): number {
  return codingOf(request.header('content-encoding')) === 'br' ? brotliWindowBytes(bytes) : 0
}

/** Adds what the head of a request says about its body and its response. */
function withHeadFacts(cost: BodyCost, request: ProxiedRequest, { dialect, isStream, isEmbedding, isCounting }: LlmEndpoint): BodyCost {
  if (typeof cost === 'string') return cost
  const known = hasForeignCharset(request.header('content-type')) ? unknown(cost) : cost
  if (dialect === 'gemini') {
    const isGenerating = isEmbedding !== true && isCounting !== true
    if (isGenerating && hidesCounts(request, request.header('x-goog-fieldmask'))) return 'bad_request'
    // Without this parameter, the response is a JSON list, which is never cut.
    const asksForEvents = isStream === true && bothNames('alt').some((name) => queryValue(request.target, name) === 'sse')
    return asksForEvents && known.isUnreadable !== true ? { ...known, isGrowable: true } : known
  }
  return known.isGrowable === true && isEmbeddingPath(normalizePath(request.target)) ? { ...known, isGrowable: false } : known
}

/** Returns both names of a parameter that Google's APIs take with and without the dollar sign. */
function bothNames(name: string): readonly string[] {
  return [name, `$${name}`]
}

/** Whether the client asks Google's API for a response without all counts, or in a form that we do not read: it would pay for what is left. */
function hidesCounts({ target }: ProxiedRequest, fieldMask: string | undefined): boolean {
  const isAny = (name: string, test: (value: FieldValue) => boolean): boolean =>
    bothNames(name).some((each) => {
      const value = queryValue(target, each)
      return value !== undefined && test(value)
    })
  return (
    fieldMask !== undefined ||
    isAny('fields', (value) => !hasWholeUsage(value)) ||
    isAny('alt', (value) => value !== 'json' && value !== 'sse') ||
    isAny('callback', () => true) ||
    // It stands for header fields, such as a mask.
    isAny('httpHeaders', () => true)
  )
}

function hasWholeUsage(mask: FieldValue): boolean {
  if (typeof mask !== 'string' || mask.includes('(')) return false
  return mask.split(',').some((field) => field === 'usageMetadata' || field === 'usage_metadata' || field === '*')
}

/** Some servers decode a body by its declared charset, and find other names in it than we do. */
function hasForeignCharset(contentType: string | undefined): boolean {
  const charsets = (contentType ?? '').matchAll(/;\s*charset\s*=\s*"?([^\s;"]*)/gi)
  return [...charsets].some(([, charset]) => !/^(?:utf-?8|us-ascii|utf-16(?:le|be)?)$/i.test(charset!))
}

function unknown(cost: LlmRequest): LlmRequest {
  return { ...cost, requestedTokens: undefined, model: undefined, isUnreadable: true, isGrowable: false }
}
