import type { IncomingMessage } from 'node:http'
import { parseAddress } from '../../../address.ts'
import { fieldValue } from '../../../http/raw-headers.ts'
import type { TrustedProxies } from '../../../request/client-address.ts'

/** Whether the browser's request came by https, as a trusted proxy says. */
export function isHttps(req: IncomingMessage, trustedProxies: TrustedProxies): boolean {
  return forwarded(req, 'x-forwarded-proto', trustedProxies)?.toLowerCase() === 'https'
}

/** Whether a request comes from a page of this host. One without an Origin does not come from another site's page. */
export function isSameOrigin(req: IncomingMessage, trustedProxies: TrustedProxies): boolean {
  const origin = fieldValue(req.rawHeaders, 'origin')
  if (origin === undefined) return true
  const host = forwarded(req, 'x-forwarded-host', trustedProxies) ?? req.headers.host
  if (typeof origin !== 'string' || host === undefined) return false
  try {
    const { protocol, host: named } = new URL(origin)
    // The scheme decides which port goes without saying.
    return named !== '' && new URL(`${protocol}//${host}`).host === named
  } catch {
    return false
  }
}

/** What a trusted proxy says of the request that it got; the first of several. */
function forwarded(req: IncomingMessage, name: string, trustedProxies: TrustedProxies): string | undefined {
  const peer = parseAddress(req.socket.remoteAddress ?? '')
  if (peer === undefined || !trustedProxies.includes(peer)) return undefined
  const value = fieldValue(req.rawHeaders, name)
  return typeof value === 'string' ? value.split(',', 1)[0]!.trim() : undefined
}
