import { boundaryOf, FormRequestReader } from '../llm/form-request.ts'
import { type LlmRequest, LlmRequestReader } from '../llm/llm-request.ts'
import { BodyScan } from './body-scan.ts'
import { brotliWindowBytes, codingOf } from './content-coding.ts'
import type { ProxiedRequest } from './proxied-request.ts'
import type { WorkSlices } from './work-slices.ts'

/** What a body says of its cost; or why that cannot be told. */
export type BodyCost = LlmRequest | 'body_too_large' | 'bad_request' | 'repeated_descriptor'

export function readCost(bytes: Buffer, request: ProxiedRequest, maxBytes: number, slices: WorkSlices): Promise<BodyCost> {
  const coding = codingOf(request.header('content-encoding'))
  const boundary = coding === 'identity' ? boundaryOf(request.header('content-type'), bytes) : undefined
  // What cannot be decoded is counted as it is.
  const reader = boundary === undefined ? new LlmRequestReader(coding === undefined ? 'latin1' : 'utf8') : new FormRequestReader(boundary)
  return new Promise((resolve, reject) => {
    const scan = new BodyScan(reader, { coding: coding ?? 'identity', maxBytes, slices, isBorrowed: false, onBroken: reject })
    if (bytes.length > 0) scan.write(bytes)
    scan.end((outcome) => {
      if (outcome === 'read') resolve(hasForeignCharset(request.header('content-type')) ? unknown(reader.end()) : reader.end())
      else resolve(outcome === 'damaged' ? 'bad_request' : 'body_too_large')
    })
  })
}

/** What its decoder may hold besides the body, where that is much. */
export function decoderBytesOf(request: ProxiedRequest, bytes: Buffer): number {
  return codingOf(request.header('content-encoding')) === 'br' ? brotliWindowBytes(bytes) : 0
}

/** Some servers decode a body as its label says, and find other names in it than we do. */
function hasForeignCharset(contentType: string | undefined): boolean {
  const charsets = (contentType ?? '').matchAll(/;\s*charset\s*=\s*"?([^\s;"]*)/gi)
  return [...charsets].some(([, charset]) => !/^(?:utf-?8|us-ascii|utf-16(?:le|be)?)$/i.test(charset!))
}

function unknown(cost: BodyCost): BodyCost {
  return typeof cost === 'string' ? cost : { ...cost, requestedTokens: undefined, model: undefined, isUnreadable: true }
}
