import { KeyFileFault } from '../callers/keys/key-journal.ts'
import type { ServerConfig } from '../config/config.ts'
import { describeAddress, type ListenerName, listener } from '../listen/listeners.ts'
import { DecisionLogFault } from '../runtime/decision-log/decision-log-file.ts'
import { SocketFault } from '../runtime/threads/socket-file.ts'
import { UsageLogFault } from '../runtime/usage-log/usage-files.ts'
import { StateFault } from '../store/state/state-format.ts'
import { StateInUse } from '../store/state/state-lock.ts'
import { StateTooLarge } from '../store/state/state-read.ts'
import { TlsFileFault } from '../tls/tls-files.ts'
import { writingProblem } from './file-problem.ts'

/** Says why `edge serve` cannot start, as a sentence about the setting at fault. Returns undefined if the program is at fault. */
export function startProblem(config: ServerConfig, error: Error): string | undefined {
  if (error instanceof StateInUse || error instanceof StateFault) return `EDGE_STATE_FILE: ${error.message}`
  if (error instanceof TlsFileFault) return error.message
  if (error instanceof KeyFileFault) return `EDGE_KEYS_FILE: ${error.message}`
  if (error instanceof DecisionLogFault) return `EDGE_DECISION_LOG: cannot write ${error.path}: ${writingProblem(error.cause)}`
  if (error instanceof UsageLogFault) return `EDGE_USAGE_DIR: cannot write files to ${error.path}: ${writingProblem(error.cause)}`
  if (error instanceof StateTooLarge) return `EDGE_STORE_SIZE: ${error.message}; ${error.enoughBytes} bytes are enough`
  if (error.message.includes('Array buffer allocation failed'))
    return `EDGE_STORE_SIZE: this machine cannot allocate ${config.storeBytes} bytes`
  const { listener: name = 'main' } = error as Error & { readonly listener?: ListenerName }
  const { setting, address } = listener(name)
  if (error instanceof SocketFault) return `${setting}: ${error.message}`
  const { adminHost, host } = config
  const isOwnHost = name === 'admin' && adminHost !== undefined
  return listenProblem(error, {
    setting,
    address: describeAddress(address(config)!),
    hostSetting: isOwnHost ? 'EDGE_ADMIN_HOST' : 'EDGE_HOST',
    host: isOwnHost ? adminHost : host,
  })
}

/** The settings to change if a listener cannot be opened, and their values. */
export interface ListenSettings {
  readonly setting: string
  /** Description of the address, such as "port 8080". */
  readonly address: string
  readonly hostSetting: string
  readonly host: string | undefined
}

/** Says why a listener cannot be opened, as a sentence about the setting at fault. Returns undefined for any other error. */
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
