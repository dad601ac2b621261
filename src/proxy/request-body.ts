import type { IncomingMessage } from 'node:http'
import type { BodyClaim, BodyClaims } from './body-claims.ts'
import { type CollectOptions, collect, FIRST_STEP_BYTES } from './body-collector.ts'
import { type BodyCost, readCost } from './body-cost.ts'
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
  /** Where its cost is read. */
  readonly slices: WorkSlices
}

/**
 * Reads the body for the estimate, as soon as there is memory for it. `onClaimed`: it is read from now on. Returns undefined when
 * the client went away before it was whole. Where nothing is enforced, no request waits for memory: its body passes unread.
 */
export async function readBody(
  request: ProxiedRequest,
  claims: BodyClaims,
  options: ReadOptions,
  onClaimed: () => void,
): Promise<ReadBody | undefined> {
  const { req, contentLength } = request
  const { maxBytes, isEnforced, slices } = options
  if (!request.hasBody) {
    onClaimed()
    return { ...UNREAD, isPartial: false, llm: await readCost(EMPTY, request, maxBytes, slices) }
  }
  const firstBytes = contentLength ?? Math.min(FIRST_STEP_BYTES, maxBytes)
  if (!isEnforced && firstBytes > maxBytes) {
    onClaimed()
    return { ...UNREAD, llm: 'body_too_large' }
  }
  const claim = claims.open(firstBytes) ?? (isEnforced ? await waitForClaim(req, claims, firstBytes) : 'body_memory_exhausted')
  if (claim === undefined) return undefined
  if (claim === 'body_memory_exhausted') {
    if (!isEnforced) onClaimed()
    return { ...UNREAD, llm: claim }
  }
  try {
    return await readClaimed(request, claim, options, onClaimed)
  } catch (error) {
    claim.release()
    throw error
  }
}

async function readClaimed(
  request: ProxiedRequest,
  claim: BodyClaim,
  options: ReadOptions,
  onClaimed: () => void,
): Promise<ReadBody | undefined> {
  onClaimed()
  const outcome = await collect(request.req, claim, options)
  if (outcome === undefined) return undefined
  if (typeof outcome === 'string') return { ...UNREAD, llm: outcome }
  const { bytes, isPartial } = outcome
  const llm = isPartial ? 'body_too_large' : await readCost(bytes, request, options.maxBytes, options.slices)
  return { bytes, isPartial, llm, release: () => claim.release() }
}

/** Nothing of the body is read meanwhile. */
function waitForClaim(req: IncomingMessage, claims: BodyClaims, bytes: number): Promise<BodyClaim | 'body_memory_exhausted' | undefined> {
  return new Promise((resolve) => {
    const onClose = (): void => {
      callOff()
      resolve(undefined)
    }
    if (req.destroyed) return resolve(undefined)
    req.once('close', onClose)
    const callOff = claims.wait(bytes, (claim) => {
      req.off('close', onClose)
      resolve(claim ?? 'body_memory_exhausted')
    })
  })
}

const EMPTY = Buffer.alloc(0)

const UNREAD = { bytes: EMPTY, isPartial: true, release: () => {} }
