import type { BodyClaim, BodyClaims } from './body-claims.ts'
import { type CollectOptions, collect, FIRST_STEP_BYTES } from './body-collector.ts'
import { type BodyCost, decoderBytesOf, readCost } from './body-cost.ts'
import type { BodySource } from './body-source.ts'
import type { Downstream } from './downstream.ts'
import { countedBytes, type MemoryHolders } from './memory-part.ts'
import type { ProxiedRequest } from './proxied-request.ts'
import type { WorkSlices } from './work-slices.ts'

/** A body that was read to see what it may cost. */
export interface ReadBody {
  /** The bytes that came, for the backend. */
  readonly bytes: Buffer
  /** There is more to come than was read. */
  readonly isPartial: boolean
  readonly llm: BodyCost | 'upload_too_slow' | 'body_memory_exhausted'
  /** Its bytes are held no longer. May be called any number of times. */
  release(): void
}

export interface ReadOptions extends CollectOptions {
  /** Whom its memory is counted for. */
  readonly holders: MemoryHolders
  /** Where its cost is read. */
  readonly slices: WorkSlices
}

/**
 * Reads the body for the estimate, as soon as there is memory for it. Returns undefined when the client went away before it was whole.
 * Where nothing is enforced, no request waits for memory: its body passes unread.
 */
export async function readBody(
  request: ProxiedRequest,
  downstream: Downstream,
  claims: BodyClaims,
  options: ReadOptions,
): Promise<ReadBody | undefined> {
  const { contentLength } = request
  const { maxBytes, isEnforced, slices, holders } = options
  if (!request.hasBody) {
    inviteBody(request, downstream)
    return { ...UNREAD, isPartial: false, llm: await readCost(EMPTY, request, maxBytes, slices) }
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

/** Claims what the decoder will hold as well. Returns undefined when the client is gone. */
async function readDecoded(
  bytes: Buffer,
  request: ProxiedRequest,
  body: BodySource,
  claims: BodyClaims,
  options: ReadOptions,
): Promise<ReadBody['llm'] | undefined> {
  const { maxBytes, slices, holders } = options
  // Together with the body it is no more than the largest body, for which there is room in everybody's share.
  const decoderBytes = Math.min(decoderBytesOf(request, bytes), maxBytes - countedBytes(bytes.length))
  if (decoderBytes <= 0) return readCost(bytes, request, maxBytes, slices)
  const claim = claims.open(holders, decoderBytes) ?? (await waitForClaim(body, claims, options, decoderBytes))
  if (claim === undefined || claim === 'body_memory_exhausted') return claim
  claim.complete(decoderBytes)
  try {
    return await readCost(bytes, request, maxBytes, slices)
  } finally {
    claim.release()
  }
}

/** Nothing of the body is read meanwhile. Returns undefined when the client is gone. Where nothing is enforced, nobody waits. */
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
    // It may be refused at once.
    cancel = claims.wait(holders, bytes, (claim) => {
      body.giveTo(undefined)
      resolve(claim ?? 'body_memory_exhausted')
    })
  })
}

const EMPTY = Buffer.alloc(0)

const UNREAD = { bytes: EMPTY, isPartial: true, release: () => {} }
