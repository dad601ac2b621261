const BROKE_OFF = 'the connection broke off before the answer was whole'

const WORDS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the connection was refused',
  // Which of these it is depends on the moment.
  ECONNRESET: BROKE_OFF,
  EPIPE: BROKE_OFF,
  UND_ERR_SOCKET: BROKE_OFF,
  ENOTFOUND: 'its host has no address',
  EAI_AGAIN: 'its host could not be looked up',
  EHOSTUNREACH: 'its host cannot be reached',
  ENETUNREACH: 'its network cannot be reached',
  ETIMEDOUT: 'its host does not answer',
}

/** fetch says "fetch failed" and puts what happened into the cause. */
export function requestFailure(error: Error): Error {
  const cause = error.cause as NodeJS.ErrnoException | undefined
  if (cause === undefined) return error
  return new Error(WORDS[cause.code ?? ''] ?? cause.message, { cause: error })
}
