import type { BodySource, Downstream } from '../downstream.ts'
import type { ProxiedRequest } from '../proxied-request.ts'
import type { BodyClaim, BodyClaims } from './body-claims.ts'
import { type CollectOptions, collect, FIRST_STEP_BYTES } from './body-collection.ts'
import { type BodyCost, type CostOptions, decoderBytesOf, isSameEndpoint, readCost } from './body-cost.ts'
import { countedBytes, type MemoryHolders } from './memory-part.ts'

/** A body that was read to estimate its cost. */
export interface ReadBody {
  /** The bytes that were received, for the backend. */
  readonly bytes: Buffer
  /** More of the body is still to come. */
  readonly isPartial: boolean
  readonly llm: BodyCost | 'upload_too_slow' | 'body_memory_exhausted'
  /** The path of the backend's URL that it was read with. */
  readonly basePath: string
  /** Releases the memory of the bytes. May be called any number of times. */
  release(): void
}

export interface ReadOptions extends CollectOptions, CostOptions {
  /** Holders that the body's memory is counted for. */
  readonly holders: MemoryHolders
}

/**
 * Reads the body for the estimate, as soon as there is memory for it. Returns undefined if the client left before the body was complete. If nothing
 * is enforced, the request does not wait for memory, and its body passes unread. A body that was received before is looked at again only if its backend's
 * path is another one, and says something else about it.
 */
export function readBody(
  request: ProxiedRequest,
  downstream: Downstream,
  claims: BodyClaims,
  options: ReadOptions,
  received: ReadBody | undefined,
): Promise<ReadBody | undefined> {
  const { maxBytes, isEnforced, holders, basePath } = options
  if (received !== undefined) return readAgain(received, request, downstream, claims, options)
  if (!request.hasBody) return readNothing(request, downstream, options)
  const firstBytes = request.contentLength ?? Math.min(FIRST_STEP_BYTES, maxBytes)
  if (!isEnforced && firstBytes > maxBytes) {
    inviteBody(request, downstream)
    return Promise.resolve({ ...UNREAD, basePath, llm: 'body_too_large' })
  }
  const claim = claims.open(holders, firstBytes)
  if (claim !== undefined) return readClaimed(request, downstream, claims, claim, options)
  return readWhenClaimed(request, downstream, claims, options, firstBytes)
}

async function readAgain(
  received: ReadBody,
  request: ProxiedRequest,
  downstream: Downstream,
  claims: BodyClaims,
  options: ReadOptions,
): Promise<ReadBody | undefined> {
  const { basePath } = options
  if (received.isPartial || isSameEndpoint(request, basePath, received.basePath)) return received
  const llm = await readDecoded(received.bytes, request, downstream.body, claims, options)
  return llm && { ...received, llm, basePath }
}

async function readNothing(request: ProxiedRequest, downstream: Downstream, options: ReadOptions): Promise<ReadBody> {
  inviteBody(request, downstream)
  return { ...UNREAD, basePath: options.basePath, isPartial: false, llm: await readCost(EMPTY, request, options) }
}

async function readWhenClaimed(
  request: ProxiedRequest,
  downstream: Downstream,
  claims: BodyClaims,
  options: ReadOptions,
  bytes: number,
): Promise<ReadBody | undefined> {
  const claim = await waitForClaim(downstream.body, claims, options, bytes)
  if (claim === undefined) return undefined
  if (claim !== 'body_memory_exhausted') return readClaimed(request, downstream, claims, claim, options)
  if (!options.isEnforced) inviteBody(request, downstream)
  return { ...UNREAD, basePath: options.basePath, llm: claim }
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
  try {
    inviteBody(request, downstream)
    const outcome = await collect(downstream.body, claim, options)
    if (outcome === undefined) return undefined
    const { basePath } = options
    if (typeof outcome === 'string') return { ...UNREAD, basePath, llm: outcome }
    const { bytes, isPartial } = outcome
    const read = isPartial ? 'body_too_large' : readDecoded(bytes, request, downstream.body, claims, options)
    const llm = read instanceof Promise ? await read : read
    if (llm !== undefined) return { bytes, isPartial, llm, basePath, release: () => claim.release() }
    claim.release()
    return undefined
  } catch (error) {
    claim.release()
    throw error
  }
}

/** Reads the cost of a body after claiming what its decoder will hold. Returns undefined if the client is gone, and a promise only if it has to wait. */
function readDecoded(
  bytes: Buffer,
  request: ProxiedRequest,
  body: BodySource,
  claims: BodyClaims,
  options: ReadOptions,
): ReadBody['llm'] | Promise<ReadBody['llm'] | undefined> {
  // Body and decoder together never exceed the largest body, which fits into every share.
  const decoderBytes = Math.min(decoderBytesOf(request, bytes), options.maxBytes - countedBytes(bytes.length))
  if (decoderBytes <= 0) return readCost(bytes, request, options)
  return readWithDecoder(bytes, decoderBytes, request, body, claims, options)
}

async function readWithDecoder(
  bytes: Buffer,
  decoderBytes: number,
  request: ProxiedRequest,
  body: BodySource,
  claims: BodyClaims,
  options: ReadOptions,
): Promise<ReadBody['llm'] | undefined> {
  const { holders } = options
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
