import { endpointOf, isEmbeddingPath, type LlmEndpoint } from '../../llm/endpoints.ts'
import { boundaryOf, FormRequestReader } from '../../llm/form-request.ts'
import { type LlmRequest, LlmRequestReader } from '../../llm/llm-request.ts'
import { queryValue } from '../../request/encoded-values.ts'
import type { FieldValue } from '../../request/view.ts'
import { normalizePath } from '../../text/path.ts'
import type { WorkSlices } from '../../time/slices.ts'
import type { ProxiedRequest } from '../proxied-request.ts'
import { brotliWindowBytes, codingOf, type ScanOutcome, scanAll } from './body-scan.ts'

export interface CostOptions {
  readonly maxBytes: number
  /** Slices in which the body's cost is read. */
  readonly slices: WorkSlices
  /** The path of the backend's URL, which may have the beginning of a path that names a model. */
  readonly basePath: string
}

/** The facts that a body's cost depends on, or the reason why they are unknown. */
export type BodyCost = LlmRequest | 'body_too_large' | 'bad_request' | 'repeated_descriptor'

/** Returns a promise only if the body is decoded, or has to wait for a slice. */
export function readCost(
  bytes: Buffer,
  request: ProxiedRequest,
  { maxBytes, slices, basePath }: CostOptions,
): BodyCost | Promise<BodyCost> {
  const coding = codingOf(request.header('content-encoding'))
  const boundary = coding === 'identity' ? boundaryOf(request.header('content-type'), bytes) : undefined
  // A body that cannot be decoded is counted as it is.
  const endpoint = endpointBehind(basePath, request)
  const charset = coding === undefined ? 'latin1' : 'utf8'
  const reader = boundary === undefined ? new LlmRequestReader(charset, endpoint) : new FormRequestReader(boundary, endpoint)
  const costAt = (outcome: ScanOutcome): BodyCost => {
    if (outcome === 'read') return withHeadFacts(reader.end(), request, endpoint)
    return outcome === 'damaged' ? 'bad_request' : 'body_too_large'
  }
  const read = scanAll(reader, bytes, { coding: coding ?? 'identity', maxBytes, slices, isBorrowed: false })
  return read instanceof Promise ? read.then(costAt) : costAt(read)
}

/** Whether a request says the same about its body behind both of these paths. */
export function isSameEndpoint(request: ProxiedRequest, basePath: string, other: string): boolean {
  const said = (path: string): string => JSON.stringify(endpointBehind(path, request))
  return basePath === other || said(basePath) === said(other)
}

function endpointBehind(basePath: string, { target }: ProxiedRequest): LlmEndpoint {
  return endpointOf(normalizePath(`${basePath}${normalizePath(target)}`))
}

/** Returns how much memory the decoder may hold besides the body; 0 if that is little. */
export function decoderBytesOf(request: ProxiedRequest, bytes: Buffer): number {
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
  const charsets = contentType?.match(CHARSETS) ?? []
  return charsets.some((charset) => !KNOWN_CHARSET.test(charset))
}

const CHARSETS = /;\s*charset\s*=\s*"?[^\s;"]*/gi
const KNOWN_CHARSET = /^;\s*charset\s*=\s*"?(?:utf-?8|us-ascii|utf-16(?:le|be)?)$/i

function unknown(cost: LlmRequest): LlmRequest {
  return { ...cost, requestedTokens: undefined, model: undefined, isUnreadable: true, isGrowable: false }
}
