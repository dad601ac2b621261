import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { ratelimitVersion } from '../doors/ratelimit.mjs'
import { findProgram, versionOf } from './programs.mjs'

/** What was measured, with what, and on what. */
export function describeMachine() {
  const [{ model }] = cpus()
  return { cpu: model, cores: cpus().length, system: `${process.platform} ${process.arch}`, node: process.version }
}

export function describeVersions() {
  const versions = versionsOf(['nginx', 'haproxy'], ['express', 'express-rate-limit', 'fastify', '@fastify/rate-limit'])
  return { ...versions, 'envoyproxy/ratelimit': ratelimitVersion() }
}

/** Of edge, of programs that may be installed, and of packages of the benchmarks. */
export function versionsOf(programs, packages) {
  const { dependencies } = readPackage('../package.json')
  return {
    edge: readPackage('../../package.json').version,
    ...Object.fromEntries(programs.map((name) => [name, versionOfProgram(name)])),
    ...Object.fromEntries(packages.map((name) => [name, dependencies[name]])),
  }
}

function versionOfProgram(name) {
  const file = findProgram(name)
  return file === undefined ? 'not installed' : versionOf(file)
}

function readPackage(path) {
  return JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8'))
}
