import { freePort, listening } from '../decision/free-port.mjs'
import { OTHERS, startProgram } from './processes.mjs'
import { newScratchDirectory } from './scratch.mjs'

/** A Redis of the benchmark's own, on the load's core, which keeps nothing. */
export async function startRedis(file) {
  const port = await freePort()
  const options = { port, bind: '127.0.0.1', save: '', appendonly: 'no', dir: newScratchDirectory(), loglevel: 'warning' }
  const args = Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)])
  const redis = startProgram(OTHERS, file, args, { stdio: ['ignore', 'ignore', 'inherit'] })
  await listening(port)
  redis.port = port
  return redis
}
