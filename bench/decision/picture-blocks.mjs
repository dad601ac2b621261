// What the pictures share.
import { escapeText } from './bar-chart.mjs'

/** Each target with its ratio and whether it is met. */
export function targetLines(targets) {
  return (x, y) => {
    const lines = targets.map(({ what, ratio, bound, verdict }, i) => {
      const figures = ratio === undefined ? '' : `${ratio.toFixed(2)}, target ${bound}: `
      const lineY = y + 36 + i * 20
      return (
        `<text class="value" x="${x}" y="${lineY}">${escapeText(what)}</text>` +
        `<text class="value" x="${x + 260}" y="${lineY}">${figures}<tspan class="${verdict}">${verdict}</tspan></text>`
      )
    })
    return { svg: [`<text class="title" x="${x}" y="${y + 14}">Targets</text>`, ...lines].join('\n'), endY: y + 36 + targets.length * 20 }
  }
}

export function capital(text) {
  return text[0].toUpperCase() + text.slice(1)
}

/** The bar of whoever is not installed. */
export function missing(name) {
  return { name, kind: kindOf(name), value: 'not installed' }
}

export function kindOf(name) {
  if (name.startsWith('edge')) return 'edge'
  return name.includes('node:') ? 'floor' : 'peer'
}
