import { getSystemErrorMap } from 'node:util'

/** The state file cannot be used. The message is a sentence, `code` the system's. */
export class StateFault extends Error {
  readonly code: string | undefined

  constructor(whatFailed: string, cause: unknown) {
    super(`${whatFailed}: ${reasonOf(cause as NodeJS.ErrnoException)}`, { cause })
    this.code = (cause as NodeJS.ErrnoException).code
  }
}

// Node has no message for it
const EDQUOT = -122

function reasonOf({ errno, message }: NodeJS.ErrnoException): string {
  if (errno === EDQUOT && process.platform === 'linux') return 'disk quota exceeded'
  return getSystemErrorMap().get(errno ?? 0)?.[1] ?? message
}
