import { acquireStateLock } from '../../../dist/store/state/state-lock.js'

/** Says that it is ready, locks the file that it is given when it is told to, says what came of it, and stays. */
process.stdin.once('data', async () => {
  try {
    await acquireStateLock(process.argv[2])
    console.log('holds')
  } catch (error) {
    console.log(`${error.constructor.name} ${error.pid}`)
  }
})
console.log('ready')
