import type { SharedPort } from './host.ts'
import type { ToWorker } from './messages.ts'

/** The ports that all workers listen on. */
export class Ports {
  readonly #main: SharedPort
  readonly #admin: SharedPort | undefined

  constructor(main: SharedPort, admin: SharedPort | undefined) {
    this.#main = main
    this.#admin = admin
  }

  /** What to tell a worker that shall listen. */
  async share(): Promise<ListenMessage> {
    const main = await this.#main.share()
    try {
      return { type: 'listen', main, admin: await this.#admin?.share() }
    } catch (error) {
      this.#main.giveBack(main)
      throw error
    }
  }

  /** It was not told to anybody. */
  giveBack({ main, admin }: ListenMessage): void {
    this.#main.giveBack(main)
    if (admin !== undefined) this.#admin!.giveBack(admin)
  }

  close(): void {
    this.#main.close()
    this.#admin?.close()
  }
}

type ListenMessage = ToWorker & { readonly type: 'listen' }
