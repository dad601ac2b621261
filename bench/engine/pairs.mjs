// `npm run bench:engine -- --against DIR`: CPU time of a decision in this build, as a ratio to that of another built checkout.
//
// In each round every contestant has a fresh process, all on one core. They decide in short slices, in turn, so that a busy machine slows all of
// them alike; a ratio is the median over the slices of a round, and the figures are medians and quartiles over the rounds. The other build takes
// part twice: how far it is from itself is the noise.
import { mkdirSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describeMachine } from '../decision/machine.mjs'
import { rounded } from '../support/numbers.mjs'
import { ask, hasCores, MEASURED, start, stop } from '../support/processes.mjs'
import { median, quartiles, ratio } from '../support/statistics.mjs'
import { CASES } from './pair-cases.mjs'

const HERE = fileURLToPath(new URL('../..', import.meta.url))
const SCRIPT = new URL('./pair-case.mjs', import.meta.url)
const SLICES = 8

export async function comparePairs(directory, pairs) {
  const other = resolve(directory)
  const contestants = [
    { id: 'before', name: 'the other build', directory: other, watch: 'unwatched' },
    { id: 'again', name: 'the other build again', directory: other, watch: 'unwatched' },
    { id: 'now', name: 'this build', directory: HERE, watch: 'unwatched' },
    { id: 'top', name: 'this build, with EDGE_TOP', directory: HERE, watch: 'watched' },
  ]
  const cases = []
  for (const { id, title } of CASES) {
    console.error(title)
    cases.push({ id, title, rows: summarise(contestants, await measure(contestants, id, pairs)) })
  }
  const results = { date: new Date().toISOString().slice(0, 10), machine: { ...describeMachine(), isPinned: hasCores }, pairs, cases }
  print(results)
  write(results)
}

/** A sample is what each contestant's slices took in one round. */
async function measure(contestants, caseId, pairs) {
  const rounds = []
  for (let pair = 0; pair < pairs; pair++) {
    const processes = []
    for (const { directory, watch } of contestants) processes.push(await start(MEASURED, SCRIPT, { args: [directory, caseId, watch] }))
    const samples = processes.map(() => [])
    for (let turn = 0; turn < SLICES; turn++) {
      for (let i = 0; i < processes.length; i++) {
        const index = (pair + turn + i) % processes.length
        samples[index].push(await ask(processes[index], 'decide'))
      }
    }
    for (const each of processes) await stop(each)
    rounds.push(samples)
  }
  return rounds
}

function summarise(contestants, rounds) {
  return contestants.map(({ id, name }, index) => {
    const ratios = rounds.map((samples) => ratio(samples[index], samples[0]).median)
    return { id, name, cpuNs: median(rounds.map((samples) => median(samples[index]))), ratio: quartiles(ratios) }
  })
}

function print({ machine, pairs, cases }) {
  console.log(`node ${machine.node}, ${machine.cpu}; ${pairs} interleaved processes of each${hasCores ? '' : '; no taskset: rough'}`)
  for (const { title, rows } of cases) {
    console.log(`\n${line(title, 'CPU ns', 'ratio', 'middle half')}`)
    for (const { name, cpuNs, ratio: to } of rows) {
      console.log(line(`  ${name}`, cpuNs.toFixed(0), to.median.toFixed(3), `${to.low.toFixed(3)}–${to.high.toFixed(3)}`))
    }
  }
}

function line(name, ...columns) {
  return name.padEnd(38) + columns.map((column) => column.padStart(15)).join('')
}

function write(results) {
  const file = new URL('../results/engine-pairs.json', import.meta.url)
  mkdirSync(new URL('.', file), { recursive: true })
  writeFileSync(file, `${JSON.stringify(results, rounded, 2)}\n`)
  console.log('\nwritten to bench/results/engine-pairs.json')
}
