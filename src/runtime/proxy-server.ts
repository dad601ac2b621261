import type { HttpListener } from '../listen/http-listener.ts'
import type { ListenerServer } from '../listen/listener-servers.ts'
import type { ListenTarget, PortAddress } from '../listen/listeners.ts'
import type { ProxyListeners } from '../proxy/proxy-listeners.ts'

/** A listener of `reverse_proxy`, and the proxy that it shares with the others. */
export class ProxyServer implements ListenerServer {
  readonly #listeners: ProxyListeners
  readonly #listener: HttpListener

  constructor(listeners: ProxyListeners, listener: HttpListener) {
    this.#listeners = listeners
    this.#listener = listener
  }

  listen(target: ListenTarget): Promise<PortAddress | undefined> {
    return this.#listener.listen(target)
  }

  drain(): void {
    this.#listener.drain()
    this.#listeners.drain()
  }

  async close(graceMs: number): Promise<void> {
    this.drain()
    await this.#listener.close(graceMs, () => this.#listeners.cutTunnels())
    this.#listeners.close()
  }
}
