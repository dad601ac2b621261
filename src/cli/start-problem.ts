import type { ServerConfig } from '../config/config.ts'
import { describeAddress } from '../listen/listen-address.ts'
import { type ListenerName, listener } from '../listen/listeners.ts'
import { DecisionLogFault } from '../runtime/decision-log/log-handle.ts'
import { SocketFault } from '../runtime/threads/socket-file.ts'
import { StateFault } from '../store/state/state-fault.ts'
import { StateInUse } from '../store/state/state-lock.ts'
import { StateTooLarge } from '../store/state/state-read.ts'
import { writingProblem } from './file-problem.ts'
import { listenProblem } from './listen-problem.ts'

/** Why `edge serve` cannot start, as a sentence about the setting at fault. Undefined: the program is at fault. */
export function startProblem(config: ServerConfig, error: Error): string | undefined {
  if (error instanceof StateInUse || error instanceof StateFault) return `EDGE_STATE_FILE: ${error.message}`
  if (error instanceof DecisionLogFault) return `EDGE_DECISION_LOG: cannot write ${error.path}: ${writingProblem(error.cause)}`
  if (error instanceof StateTooLarge) return `EDGE_STORE_SIZE: ${error.message}; ${error.enoughBytes} bytes are enough`
  if (error.message.includes('Array buffer allocation failed'))
    return `EDGE_STORE_SIZE: this machine cannot allocate ${config.storeBytes} bytes`
  const { listener: name = 'main' } = error as Error & { readonly listener?: ListenerName }
  const { setting, address } = listener(name)
  if (error instanceof SocketFault) return `${setting}: ${error.message}`
  return listenProblem(error, { setting, address: describeAddress(address(config)!), hostSetting: 'EDGE_HOST', host: config.host })
}
