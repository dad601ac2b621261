/** What the ratios of speed have to be at least. */
export function judge({ oneRule, rawNet, nodeHttp, nginx, twoThreads }) {
  return [
    atLeast('one rule, edge : constant node:net', oneRule(rawNet), 0.87),
    atLeast('one rule, edge : empty node:http', oneRule(nodeHttp), 1.6),
    atLeast('one rule, edge : nginx limit_req', oneRule(nginx), 0.7),
    atLeast('two threads : one, on the engine', twoThreads, 1.85),
  ]
}

export function atLeast(what, ratio, bound) {
  return target(what, ratio, `≥ ${boundText(bound)}`, ratio?.median >= bound)
}

/** Of a ratio of costs. */
export function atMost(what, ratio, bound) {
  return target(what, ratio, `≤ ${boundText(bound)}`, ratio?.median <= bound)
}

/** A ratio that could not be measured has no verdict. */
function target(what, ratio, bound, isMet) {
  return {
    what,
    ratio: ratio?.median,
    bound,
    verdict: ratio === undefined ? 'not measured' : isMet ? 'met' : 'missed',
    steal: ratio?.steal,
  }
}

function boundText(bound) {
  return String(Number(bound.toFixed(2)))
}
