import type { ListenerTimeouts } from '../../listen/http-listener.ts'
import { WireFront } from '../../listen/wire-front.ts'
import { WireClient } from './wire-client.ts'
import { WireContext, type WireHandlers } from './wire-context.ts'

export type ProxyWire = WireFront<WireClient>

/**
 * The proxy's own wire.
 * `silenceMs`: how long a client may be silent in the middle of a request, or take nothing of its response; 0: for ever.
 */
export function newProxyWire(timeouts: ListenerTimeouts, silenceMs: number, handlers: WireHandlers): ProxyWire {
  const context = new WireContext(timeouts.keepAliveMs, silenceMs, handlers)
  return new WireFront(timeouts, context, (socket, onGone) => new WireClient(context, socket, onGone), silenceMs)
}
