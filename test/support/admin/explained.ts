import { type AdminResponse, askAdmin } from './admin-client.ts'

/** A request as `POST explain` takes it. */
export interface ExplainBody {
  readonly method: string
  readonly uri: string
  readonly host?: string
  readonly headers?: Readonly<Record<string, string | readonly string[]>>
  readonly body?: string
}

// biome-ignore lint/suspicious/noExplicitAny: each test knows the shape that it expects
type Json = any

/** What the service explains of a request. Without a method it is a GET. */
export async function explained(port: number, request: Partial<ExplainBody>): Promise<Json> {
  const { status, json } = await asksToExplain(port, { method: 'GET', uri: '/', ...request })
  if (status !== 200) throw new Error(`status ${status}: ${JSON.stringify(json)}`)
  return json
}

/** The same for a body of any kind. */
export function asksToExplain(port: number, body: unknown): Promise<AdminResponse> {
  return askAdmin(port, 'POST', 'explain', { body })
}
