import type { ServerConfig } from '../config/config.ts'
import { closingGroups, type ListenAddress, type ListenerName, type ListenTarget, listener, type PortAddress } from './listeners.ts'

/** The servers of one worker, by the name of their listener. */
export class ListenerServers {
  readonly #config: ServerConfig
  readonly #servers: ReadonlyMap<ListenerName, ListenerServer>
  readonly #listening = new Set<ListenerName>()
  #isDraining = false

  constructor(config: ServerConfig, servers: ReadonlyMap<ListenerName, ListenerServer>) {
    this.#config = config
    this.#servers = servers
  }

  /** Whether everything that requests come to is open. */
  get isListening(): boolean {
    return [...this.#servers.keys()].every((name) => this.#listening.has(name) || listener(name).opens === 'early')
  }

  get isDraining(): boolean {
    return this.#isDraining
  }

  async listen(name: ListenerName, target: ListenTarget): Promise<ListenAddress> {
    const port = await this.#servers.get(name)!.listen(target)
    this.#listening.add(name)
    return port ?? listener(name).address(this.#config)!
  }

  /** Not ready from now on, but serving: load balancers need time to notice. */
  drain(): void {
    this.#isDraining = true
    for (const server of this.#servers.values()) server.drain()
  }

  async close(): Promise<void> {
    this.drain()
    for (const group of closingGroups([...this.#servers.keys()])) {
      await Promise.all(group.map((name) => this.#servers.get(name)!.close(listener(name).closeMs(this.#config))))
    }
  }
}

/** What a listener needs of the server behind it, whatever protocol that speaks. */
export interface ListenerServer {
  /** Done when connections are accepted. Returns where: the system may have chosen the port. Undefined for a unix socket. */
  listen(target: ListenTarget): Promise<PortAddress | undefined>
  /** Serves on, but from now on every response is the last on its connection. */
  drain(): void
  /** Accepts nothing more, lets open requests end, and cuts what is left after `graceMs`. */
  close(graceMs: number): Promise<void>
}
