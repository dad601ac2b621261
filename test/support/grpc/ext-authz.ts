import type { Fields } from '../service/http.ts'
import type { Owner } from '../service/running.ts'
import { type Failure, type JsClient, jsClient } from './js-client.ts'

/** A client of Envoy's authorization service. */
export function authorization(port: number, owner?: Owner): JsClient {
  return jsClient(`127.0.0.1:${port}`, 'ext_authz.proto', 'envoy.service.auth.v3.Authorization', owner)
}

export interface CheckedRequest {
  readonly method?: string
  readonly path?: string
  readonly host?: string
  /** As the `headers` map has them. */
  readonly headers?: Readonly<Record<string, string>>
  /** As `header_map` has them; values are a character a byte. */
  readonly fields?: Fields
  /** The peer of the gateway's connection. */
  readonly source?: string | { readonly pipe: { readonly path: string } }
  readonly context?: Readonly<Record<string, string>>
}

export interface Checked {
  /** Of `CheckResponse.status`. */
  readonly code: number
  /** What the client gets: 200, or the status of the denial. */
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** What the backend gets. */
  readonly upstream: Readonly<Record<string, string>>
  /** What the backend does not get. */
  readonly removed: readonly string[]
  readonly body: string
}

interface HeaderOption {
  readonly header: { readonly key: string; readonly value: string }
  readonly append_action: string
}

interface CheckResponse {
  readonly status?: { readonly code?: number }
  readonly ok_response?: {
    readonly headers?: readonly HeaderOption[]
    readonly headers_to_remove?: readonly string[]
    readonly response_headers_to_add?: readonly HeaderOption[]
  }
  readonly denied_response?: {
    readonly status: { readonly code: keyof typeof STATUS_CODES }
    readonly headers?: readonly HeaderOption[]
    readonly body?: string
  }
}

const STATUS_CODES = { BadRequest: 400, Unauthorized: 401, Forbidden: 403, TooManyRequests: 429 } as const

/** What Envoy would make of the response; a call that fails throws. */
export async function check(client: JsClient, request: CheckedRequest = {}): Promise<Checked> {
  const outcome = await client.call<CheckResponse>('Check', checkRequest(request))
  if (outcome.failure !== undefined) throw new Error(`status ${outcome.failure.code}: ${outcome.failure.details}`)
  const { status, ok_response: ok, denied_response: denied } = outcome.response
  return {
    code: status?.code ?? 0,
    status: denied === undefined ? 200 : STATUS_CODES[denied.status.code],
    headers: headersOf(denied === undefined ? ok?.response_headers_to_add : denied.headers),
    upstream: headersOf(ok?.headers),
    removed: ok?.headers_to_remove ?? [],
    body: denied?.body ?? '',
  }
}

/** How a call fails. */
export async function checkFailure(client: JsClient, request: CheckedRequest = {}): Promise<Failure | undefined> {
  return (await client.call('Check', checkRequest(request))).failure
}

/** The message as Envoy sends it. */
export function checkRequest({ method = 'GET', path = '/', host, headers, fields, source, context }: CheckedRequest): object {
  const http = {
    id: '1234567890',
    method,
    path,
    ...(host !== undefined && { host }),
    scheme: 'http',
    protocol: 'HTTP/1.1',
    ...(headers && { headers: { ':method': method, ':path': path, ...headers } }),
    ...(fields && { header_map: { headers: fields.map(([key, value]) => ({ key, raw_value: Buffer.from(value, 'latin1') })) } }),
  }
  const address = typeof source === 'string' ? { socket_address: { address: source, port_value: 12345 } } : source
  return { attributes: { ...(address && { source: { address } }), request: { http }, ...(context && { context_extensions: context }) } }
}

function headersOf(options: readonly HeaderOption[] = []): Record<string, string> {
  for (const { append_action: action } of options)
    if (action !== 'OVERWRITE_IF_EXISTS_OR_ADD') throw new Error(`append_action is ${action}`)
  return Object.fromEntries(options.map(({ header }) => [header.key, header.value]))
}
