const BROKE_OFF = 'the connection was closed before the response was complete'

const DESCRIPTIONS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the connection was refused',
  // Which of these codes it is depends on timing.
  ECONNRESET: BROKE_OFF,
  EPIPE: BROKE_OFF,
  UND_ERR_SOCKET: BROKE_OFF,
  ENOTFOUND: 'its host name has no address',
  EAI_AGAIN: 'its host name could not be looked up',
  EHOSTUNREACH: 'its host is unreachable',
  ENETUNREACH: 'its network is unreachable',
  ETIMEDOUT: 'its host does not respond',
  ERR_SSL_WRONG_VERSION_NUMBER: 'it does not use TLS: should the URL be http://?',
  ERR_SSL_PACKET_LENGTH_TOO_LONG: 'it does not use TLS: should the URL be http://?',
  HPE_INVALID_CONSTANT: 'it does not use HTTP',
}

// RFC 8446 5.1 and 6: an alert, the response of a TLS server to plain HTTP, if it sends any
const TLS_ALERT = '\x15\x03'

/** fetch only reports "fetch failed"; what happened is in the cause. */
export function requestFailure(error: Error): Error {
  const cause = error.cause as (NodeJS.ErrnoException & { readonly data?: unknown }) | undefined
  if (cause === undefined) return error
  return new Error(describe(cause), { cause: error })
}

function describe({ code = '', message, data }: NodeJS.ErrnoException & { readonly data?: unknown }): string {
  if (String(data).startsWith(TLS_ALERT)) return 'it uses TLS: should the URL be https://?'
  if (message === 'bad port') return 'its port is reserved for another protocol, and fetch does not connect to such ports'
  return DESCRIPTIONS[code] ?? message
}
