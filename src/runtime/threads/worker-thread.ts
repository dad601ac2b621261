/** Entry point of a worker's thread. */

import { parentPort, workerData } from 'node:worker_threads'
import { hasEvents, readConfig } from '../../config/config.ts'
import type { ToWorker } from '../../control/thread-messages.ts'
import { openLog } from '../../telemetry/logger.ts'
import { systemClock } from '../../time/clock.ts'
import { Worker } from '../worker.ts'
import type { ThreadData } from './thread-host.ts'

const { settings, memory, partialLine, worker } = workerData as ThreadData
const port = parentPort!
const result = readConfig(settings.env, settings.flags)
if (!result.ok) throw new Error(result.problems.join('\n'))
const { config } = result
const { logger, tap } = openLog(config.logLevel, hasEvents(config), partialLine)
// No top-level `await`: modules that the start loads may import from this file, and would wait for it for ever.
const started = Worker.start({
  config,
  memory,
  worker,
  clock: systemClock,
  logger,
  tap,
  send: (message) => port.postMessage(message),
})
// An error from here ends this thread, and the supervisor starts another.
port.on('message', (message: ToWorker) => void started.then((self) => self.onMessage(message)))
