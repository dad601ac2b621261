/** What is to be changed when a listener cannot be opened, and what it was set to. */
export interface ListenSettings {
  readonly setting: string
  /** As in "port 8080". */
  readonly address: string
  readonly hostSetting: string
  readonly host: string | undefined
}

/** Why a listener cannot be opened, as a sentence about the setting at fault. Undefined: that is not what is wrong. */
export function listenProblem(error: Error, settings: ListenSettings): string | undefined {
  const { setting, address, hostSetting, host } = settings
  const { code, syscall } = error as NodeJS.ErrnoException
  switch (code) {
    case 'EADDRINUSE':
      return `${setting}: ${address} is in use by another process`
    case 'EACCES':
      return syscall === 'listen' ? `${setting}: this user is not allowed to listen on ${address}` : undefined
    case 'EADDRNOTAVAIL':
    case 'EAFNOSUPPORT':
    case 'EINVAL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `${hostSetting}: ${JSON.stringify(host)} is not an address of this machine`
    default:
      return undefined
  }
}
