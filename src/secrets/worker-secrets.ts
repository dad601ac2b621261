import type { SecretValues } from './header-template.ts'
import type { NamedSecrets } from './secrets.ts'

/**
 * The worker's copies of all secrets. None is forgotten when a bundle no longer names it, because a request that began with the bundle before may
 * still be sent once more. Their number is bounded by what operators have put into the environment and the directory.
 */
export class WorkerSecrets implements SecretValues {
  readonly #values = new Map<string, string>()

  note(secrets: NamedSecrets): void {
    for (const [name, value] of secrets) this.#values.set(name, value)
  }

  valueOf(name: string): string {
    const value = this.#values.get(name)
    if (value === undefined) throw new Error(`the secret ${name} is not known to this worker`)
    return value
  }
}
