import { createHmac } from 'node:crypto'
import { requestFailure } from '../../bundle/request-failure.ts'

export interface WebhookRequest {
  readonly url: URL
  readonly key: Buffer
  /** The same for each attempt. */
  readonly id: string
  readonly body: string
  /** Of this attempt. */
  readonly wallMs: number
  readonly userAgent: string
  /** Until the response begins. */
  readonly timeoutMs: number
  readonly signal: AbortSignal
}

/** A connection is kept for the next request where the rest of a response is no longer than this, and here soon. */
const MAX_BODY_BYTES = 16 * 1024
const BODY_MS = 1000

/** Posts once, signed as Standard Webhooks says. Throws an Error whose message says why it was not accepted and contains no secret. */
export async function postWebhook(request: WebhookRequest): Promise<void> {
  const { url, body, timeoutMs } = request
  const ending = new AbortController()
  const end = (): void => ending.abort()
  let isLate = false
  const timer = setTimeout(() => {
    isLate = true
    end()
  }, timeoutMs).unref()
  request.signal.addEventListener('abort', end)
  if (request.signal.aborted) end()
  try {
    const response = await fetch(url, { method: 'POST', headers: headersOf(request), body, redirect: 'manual', signal: ending.signal })
    clearTimeout(timer)
    await readRest(response, end)
    const { status } = response
    if (status >= 300 && status < 400) throw new Error(`it returned ${status}: redirects are not followed`)
    if (status < 200 || status >= 300) throw new Error(`it returned ${status}`)
  } catch (error) {
    if (isLate) throw new Error(`no response within ${timeoutMs / 1000} s`)
    if (request.signal.aborted) throw new Error('there was no time left')
    throw requestFailure(error as Error)
  } finally {
    clearTimeout(timer)
    request.signal.removeEventListener('abort', end)
  }
}

function headersOf({ key, id, body, wallMs, userAgent }: WebhookRequest): Record<string, string> {
  const timestamp = String(Math.floor(wallMs / 1000))
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')
  return {
    'Content-Type': 'application/json',
    'Accept-Encoding': 'identity',
    'User-Agent': userAgent,
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': `v1,${signature}`,
  }
}

/** Its status has come, so nothing that happens to the rest matters. */
async function readRest({ body }: Response, end: () => void): Promise<void> {
  const timer = setTimeout(end, BODY_MS).unref()
  let bytes = 0
  try {
    for await (const chunk of body ?? []) {
      bytes += (chunk as Uint8Array).length
      if (bytes > MAX_BODY_BYTES) break // which closes the connection
    }
  } catch {
    // broken off
  } finally {
    clearTimeout(timer)
  }
}
