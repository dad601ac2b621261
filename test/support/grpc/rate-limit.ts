import type { Owner } from '../service/running.ts'
import { type Failure, type JsClient, jsClient } from './js-client.ts'

/** A client of Envoy's rate limit service. */
export function rateLimitService(port: number, owner?: Owner): JsClient {
  return jsClient(`127.0.0.1:${port}`, 'rate_limit.proto', 'envoy.service.ratelimit.v3.RateLimitService', owner)
}

export interface AskedDescriptor {
  /** Such as `user=alice plan=free`. */
  readonly entries: string
  /** Its own. */
  readonly hits?: number
  readonly isNegative?: boolean
}

export interface LimitAnswer {
  readonly overall: string
  /** Such as `OVER_LIMIT r 5/HOUR 0 3600s`: code, name and limit, what remains, until when. */
  readonly statuses: readonly string[]
  readonly headers: Readonly<Record<string, string>>
}

interface Status {
  readonly code: string
  readonly current_limit?: { readonly requests_per_unit: number; readonly unit: string; readonly name: string }
  readonly limit_remaining?: number
  readonly duration_until_reset?: { readonly seconds?: number }
}

interface Response {
  readonly overall_code: string
  readonly statuses?: readonly Status[]
  readonly response_headers_to_add?: readonly { readonly key: string; readonly value: string }[]
}

/** What Envoy gets; a call that fails throws. */
export async function shouldRateLimit(
  client: JsClient,
  descriptors: readonly (AskedDescriptor | string)[],
  domain = 'd',
  hits?: number,
): Promise<LimitAnswer> {
  const { response, failure } = await client.call<Response>('ShouldRateLimit', limitRequest(descriptors, domain, hits))
  if (failure !== undefined) throw new Error(`status ${failure.code}: ${failure.details}`)
  return {
    overall: response.overall_code,
    statuses: (response.statuses ?? []).map(shown),
    headers: Object.fromEntries((response.response_headers_to_add ?? []).map(({ key, value }) => [key.toLowerCase(), value])),
  }
}

/** Sends these bytes as the message. Returns the status of the call, 0 where it succeeds. */
export function sendBytes({ client }: JsClient, bytes: Uint8Array): Promise<number> {
  const path = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'
  return new Promise((resolve) => {
    client.makeUnaryRequest(
      path,
      () => Buffer.from(bytes),
      (reply) => reply,
      null,
      (error) => resolve(error?.code ?? 0),
    )
  })
}

/** How a call fails. */
export async function limitFailure(
  client: JsClient,
  descriptors: readonly (AskedDescriptor | string)[],
  domain = 'd',
): Promise<Failure | undefined> {
  return (await client.call('ShouldRateLimit', limitRequest(descriptors, domain))).failure
}

/** The message as Envoy sends it. */
function limitRequest(descriptors: readonly (AskedDescriptor | string)[], domain: string, hits?: number): object {
  const asked = descriptors.map((each) => (typeof each === 'string' ? { entries: each } : each))
  return {
    domain,
    descriptors: asked.map(({ entries, hits: own, isNegative }) => ({
      entries: entries.split(' ').map((entry) => ({ key: entry.split('=')[0], value: entry.split('=')[1] })),
      ...(own !== undefined && { hits_addend: { value: own } }),
      ...(isNegative && { is_negative_hits: true }),
    })),
    ...(hits !== undefined && { hits_addend: hits }),
  }
}

function shown({ code, current_limit: limit, limit_remaining: remaining = 0, duration_until_reset: reset }: Status): string {
  const stated = limit === undefined ? '-' : `${limit.name} ${limit.requests_per_unit}/${limit.unit}`
  return `${code} ${stated} ${remaining} ${reset === undefined ? '-' : `${reset.seconds ?? 0}s`}`
}
