// `npm test`, after the build: types and style are checked beside the tests, which wait often enough to leave a core for that. The output of the
// check comes last, where it is seen.
import { spawn } from 'node:child_process'
import { once } from 'node:events'

// The terminal sends Ctrl+C to all child processes, and each cleans up before it ends.
process.on('SIGINT', () => {})
const check = spawn('npm', ['run', '--silent', 'check'], { stdio: ['ignore', 'pipe', 'pipe'] })
const said = []
for (const output of [check.stdout, check.stderr]) output.on('data', (chunk) => said.push(chunk))
const tests = spawn('vitest', ['run', ...process.argv.slice(2)], { stdio: 'inherit' })
for (const signal of ['SIGHUP', 'SIGTERM']) {
  process.on(signal, () => {
    check.kill(signal)
    tests.kill(signal)
  })
}

const [[checkStatus], [testStatus]] = await Promise.all([once(check, 'close'), once(tests, 'close')])
process.stdout.write(Buffer.concat(said))
if (checkStatus !== 0) process.stdout.write('\nFAILED: npm run check\n')
process.exitCode = checkStatus === 0 ? (testStatus ?? 1) : 1
