import { bucketRule, bundle, policy } from '../bundles/bundles.ts'
import { ADMIN_TOKEN, type AdminResponse, askAdmin } from './admin-client.ts'

export const BUNDLE = bundle(1, policy('p', { rules: [bucketRule('r', [], 10)] }))

export interface Login {
  readonly response: AdminResponse
  /** The cookie as a browser sends it back. */
  readonly cookie: string
  readonly csrf: string
}

export async function login(port: number, headers: Readonly<Record<string, string>> = {}, actor?: string): Promise<Login> {
  const response = await askAdmin(port, 'POST', 'session', { token: undefined, body: { token: ADMIN_TOKEN, actor }, headers })
  return { response, cookie: setCookieOf(response).split(';')[0]!, csrf: response.json.csrf_token }
}

export function setCookieOf({ headers }: AdminResponse): string {
  return (headers['set-cookie'] as string[])[0]!
}

/** Asks with a cookie and without the token. */
export function askWith(cookie: string, port: number, method: string, path: string, headers = {}, body?: unknown): Promise<AdminResponse> {
  return askAdmin(port, method, path, { token: undefined, headers: { Cookie: cookie, ...headers }, ...(body !== undefined && { body }) })
}
