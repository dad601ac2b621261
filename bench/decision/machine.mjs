import { readFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { RATELIMIT_VERSION } from '../doors/ratelimit.mjs'
import { findProgram, versionOf } from './programs.mjs'

/** What was measured, with what, and on what. */
export function describeMachine() {
  const [{ model }] = cpus()
  return { cpu: model, cores: cpus().length, system: `${process.platform} ${process.arch}`, node: process.version }
}

export function describeVersions() {
  const { dependencies } = readPackage('../package.json')
  const peers = ['express', 'express-rate-limit', 'fastify', '@fastify/rate-limit'].map((name) => [name, dependencies[name]])
  const programs = ['nginx', 'haproxy'].map((name) => [name, versionOfProgram(name)])
  return { edge: readPackage('../../package.json').version, ...Object.fromEntries([...programs, ...peers]), ratelimit: RATELIMIT_VERSION }
}

function versionOfProgram(name) {
  const file = findProgram(name)
  return file === undefined ? 'not installed' : versionOf(file)
}

function readPackage(path) {
  return JSON.parse(readFileSync(new URL(path, import.meta.url), 'utf8'))
}
