import { request } from 'node:http'
import { expectDocumented } from './openapi.ts'

export const ADMIN_TOKEN = 'an-admin-token-of-thirty-two-characters-or-more'

/** The settings of a service with an admin API. */
export const ADMIN_ENV = { EDGE_ADMIN_PORT: '0', EDGE_ADMIN_TOKEN: ADMIN_TOKEN }

export interface AdminResponse {
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** The body as JSON; undefined where there is none. */
  // biome-ignore lint/suspicious/noExplicitAny: each test knows the shape that it expects
  readonly json: any
}

export interface AdminRequest {
  readonly body?: unknown
  readonly token?: string | undefined
  readonly actor?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Asks the admin API, with the right token unless another is given. The response must be as OpenAPI says. */
export function askAdmin(
  port: number,
  method: string,
  path: string,
  { body, actor, headers, ...rest }: AdminRequest = {},
): Promise<AdminResponse> {
  const token = 'token' in rest ? rest.token : ADMIN_TOKEN
  const text = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body)
  return new Promise((resolve, reject) => {
    const req = request({
      port,
      host: '127.0.0.1',
      method,
      path: `/admin/v1/${path}`,
      agent: false,
      headers: {
        ...(token !== undefined && { Authorization: `Bearer ${token}` }),
        ...(actor !== undefined && { 'X-Edge-Actor': actor }),
        ...(text !== undefined && { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }),
        ...headers,
      },
    })
    req.on('error', reject)
    req.on('response', (res) => {
      const chunks: Buffer[] = []
      res.on('data', (chunk: Buffer) => chunks.push(chunk))
      res.on('error', reject)
      res.on('end', () => {
        const received = Buffer.concat(chunks).toString()
        const response = { status: res.statusCode!, headers: res.headers, json: received === '' ? undefined : JSON.parse(received) }
        try {
          expectDocumented(method, path, response)
          resolve(response)
        } catch (error) {
          reject(error)
        }
      })
    })
    req.end(text)
  })
}

/** Where a process with an admin port serves it, as its startup message says. */
export function adminPortOf({ stdout }: { readonly stdout: string }): number {
  return Number(/admin\s+http:\/\/127\.0\.0\.1:(\d+)/.exec(stdout)![1])
}
