import { execFileSync } from 'node:child_process'
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { join } from 'node:path'
import { ended, startGroup } from './processes.mjs'

/** The shell reports the CPU time of its children and all their descendants, once each has been waited for. */
const TIMED = 'times=$1; shift; "$@"; status=$?; times >"$times"; exit "$status"'

/** Prints the facts that a process sees under the condition. */
const FACTS = `
  const { accessSync, statSync } = require('node:fs')
  const { availableParallelism, networkInterfaces, tmpdir } = require('node:os')
  const { join } = require('node:path')
  const exists = (path) => { try { accessSync(path); return true } catch { return false } }
  console.log(JSON.stringify({
    node: process.version,
    uid: process.getuid(),
    cores: availableParallelism(),
    interfaces: Object.keys(networkInterfaces()),
    tmpdir: tmpdir(),
    tmpdirDevice: statSync(tmpdir()).dev,
    redis: process.env.PATH.split(':').map((folder) => join(folder, 'redis-server')).find(exists),
  }))`

/** Runs `command` on a copy of its own under the given condition. */
export async function runTests(command, { wrapper = [], env = {}, user, fault }, { work, original, logs, prefix }) {
  const folder = join(work, prefix)
  const [copy, times, log] = [join(folder, 'edge'), join(folder, 'times'), join(logs, `${prefix}.log`)]
  mkdirSync(folder)
  execFileSync('cp', ['-RPp', original, copy])
  if (user !== undefined) execFileSync('chown', ['-R', `${user.uid}:${user.gid}`, folder])

  const place = { cwd: copy, env: { ...process.env, ...env }, ...user }
  const facts = await factsOf(wrapper, place)
  const load = loadavg()[0].toFixed(1)
  const head = `${command}\n${JSON.stringify({ ...facts, load })}\n`
  writeFileSync(log, head)
  const isNot = fault?.(facts)
  if (isNot) return { isPassed: false, status: `the condition does not hold: ${isNot}`, facts, load, wallMs: 0, cpuMs: 0, log }

  const before = { stolen: stolenTicks(), ms: performance.now() }
  const output = openSync(log, 'a')
  const child = startGroup(['sh', '-c', TIMED, 'sh', times, ...wrapper, 'sh', '-c', command], {
    ...place,
    stdio: ['ignore', output, output],
  })
  const status = await ended(child)
  closeSync(output)
  const run = {
    isPassed: status === 0,
    status,
    facts,
    load,
    wallMs: performance.now() - before.ms,
    cpuMs: cpuMsIn(times),
    stolen: shareBetween(before.stolen, stolenTicks()),
    log,
  }
  rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
  return run
}

async function factsOf(wrapper, place) {
  const child = startGroup([...wrapper, 'node', '-e', FACTS], { ...place, stdio: ['ignore', 'pipe', 'inherit'] })
  let text = ''
  child.stdout.setEncoding('utf8').on('data', (piece) => {
    text += piece
  })
  await ended(child)
  return JSON.parse(text)
}

/** The second line of `times` has the children's user and system time, such as `1m2.345s 0m0.678s`. */
function cpuMsIn(path) {
  if (!existsSync(path)) return 0 // the shell was killed
  const [, children = ''] = readFileSync(path, 'utf8').split('\n')
  const parts = [...children.matchAll(/(\d+)m([\d.,]+)s/g)]
  return parts.reduce((sum, [, minutes, seconds]) => sum + (Number(minutes) * 60 + Number(seconds.replace(',', '.'))) * 1000, 0)
}

/** Returns the CPU time since boot that the machine's host gave to others while processes here wanted to run; undefined unless on Linux. */
function stolenTicks() {
  if (process.platform !== 'linux') return undefined
  const ticks = /^cpu +(.*)$/m.exec(readFileSync('/proc/stat', 'utf8'))[1].split(' ').map(Number)
  return { stolen: ticks[7], all: ticks.slice(0, 8).reduce((sum, one) => sum + one, 0) }
}

function shareBetween(before, after) {
  return before && (after.stolen - before.stolen) / Math.max(1, after.all - before.all)
}
