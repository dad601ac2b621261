import { batch, signal } from '@preact/signals'
import type { PolicyJson, PolicyPage } from '../../src/admin/api/types.ts'
import { ApiFailure, ask, messageOf } from '../api.ts'
import { policiesPath } from '../policies.ts'

const PAGE_ROWS = 500

/** The policies that contain a text, in bundle order, loaded as far as the operator has scrolled. */
export class PolicyList {
  readonly rows = signal<readonly PolicyJson[]>([])
  readonly isComplete = signal(false)
  /** True before the first load, too: until then nothing is known about the bundle. */
  readonly isLoading = signal(true)
  /** Why no more policies could be loaded. */
  readonly failure = signal<string | undefined>(undefined)
  #search = ''
  #next: string | undefined
  /** Incremented with each new list, so that responses for an earlier one are dropped. */
  #turn = 0

  /** Starts over. If the text is the same, it loads as many rows as there were. */
  async load(search: string): Promise<void> {
    const turn = ++this.#turn
    const wanted = search === this.#search ? this.rows.peek().length : 0
    this.#search = search
    this.isLoading.value = true
    let rows: readonly PolicyJson[] = []
    let next: string | undefined
    try {
      do {
        const page = await ask<PolicyPage>('GET', this.#path(next))
        rows = [...rows, ...page.policies]
        next = page.next ?? undefined
      } while (turn === this.#turn && next !== undefined && rows.length < wanted)
      if (turn === this.#turn) this.#show(rows, next)
    } catch (error) {
      if (turn === this.#turn) this.#fail(error)
    }
  }

  async loadMore(): Promise<void> {
    if (this.isLoading.peek() || this.#next === undefined) return
    const turn = this.#turn
    this.isLoading.value = true
    try {
      const page = await ask<PolicyPage>('GET', this.#path(this.#next))
      if (turn === this.#turn) this.#show([...this.rows.peek(), ...page.policies], page.next ?? undefined)
    } catch (error) {
      if (turn === this.#turn) this.#fail(error)
    }
  }

  /** Returns the path for the rows from an index on, as they are now. */
  pathFrom(place: number, limit: number): string {
    return policiesPath({ search: this.#search, after: this.rows.peek()[place - 1]?.id, limit: String(limit) })
  }

  /** Replaces rows from an index on by newer versions, if they are still the same policies. */
  update(place: number, policies: readonly PolicyJson[]): void {
    const rows = this.rows.peek()
    if (policies.length === 0 || policies.some(({ id }, i) => rows[place + i]?.id !== id)) return
    this.rows.value = [...rows.slice(0, place), ...policies, ...rows.slice(place + policies.length)]
  }

  #path(after: string | undefined): string {
    return policiesPath({ search: this.#search, after, limit: String(PAGE_ROWS) })
  }

  #show(rows: readonly PolicyJson[], next: string | undefined): void {
    this.#next = next
    batch(() => {
      this.rows.value = rows
      this.isComplete.value = next === undefined
      this.isLoading.value = false
      this.failure.value = undefined
    })
  }

  #fail(error: unknown): void {
    batch(() => {
      this.isLoading.value = false
      // The header already shows that edge is unreachable.
      if (error instanceof ApiFailure) this.failure.value = messageOf(error)
    })
  }
}
