// A chart over periods, drawn as SVG: lines, and bars above and below zero. Its values are read out period by period, with a
// pointer or with the arrow keys, and are in a table that can be opened. Until then the span as a whole is told.

import {el, svg} from './elements.js'
import {number, table} from './tables.js'

const height = 150
const top = 8
const bottom = 22

/// A round step: about three of them make up a range.
function step(range) {
  const rough = range / 3
  const power = 10 ** Math.floor(Math.log10(rough))
  return [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough)
}

/// The least and the greatest value on the axis, and the lines between them.
function scale(series, length, isWhole) {
  let [least, greatest] = [0, 0]
  for (let index = 0; index < length; index += 1) {
    const sum = (part) => series.filter((one) => one.kind === part).reduce((sum, one) => sum + one.values[index], 0)
    const lines = series.filter((one) => one.kind === 'line').map((one) => one.values[index] ?? 0)
    greatest = Math.max(greatest, sum('bar'), ...lines)
    least = Math.min(least, -sum('below'), ...lines)
  }
  let size = step(greatest - least || 1)
  if (isWhole) size = Math.max(1, size)
  const marks = []
  for (let mark = Math.floor(least / size); mark * size < greatest || mark <= 0 || marks.length < 2; mark += 1) {
    marks.push(mark * size)
  }
  if (marks.at(-1) < greatest) marks.push(marks.at(-1) + size)
  return {least: marks[0], greatest: marks.at(-1), marks}
}

/// - Parameters:
///   - name: what is shown, for those who do not see it.
///   - periods: as `dated` makes them.
///   - series: each with a name, a `tone`, one of `line`, `bar` and `below` as its `kind`, and a value for each period; of a
///     line `null` where there is none. Of bars the whole span has the sum, of a line the last value.
///   - format: a value as text.
///   - axis: a value as a short text.
/// - Returns: the element, and what draws it at its present width.
export function chart({name, periods, series, format, axis = format, isWhole = true}) {
  const last = periods.length - 1
  const whole = last > 0 ? `${periods[0].long} to ${periods[last].long}` : periods[0].long
  /// The name and the value of a series; of the whole span without an index.
  const told = (one, index) => index !== null ? [one.name, format(one.values[index])]
    : one.kind === 'line' ? [`${one.name} ${one.at || 'now'}`, format(one.values[last])]
      : [one.name, format(one.values.reduce((sum, value) => sum + value, 0))]
  const readout = el('p', {class: 'readout', 'aria-hidden': 'true'})
  const picture = el('div', {class: 'plot', role: 'slider', tabindex: 0, 'aria-label': name,
    'aria-valuemin': 0, 'aria-valuemax': last, 'aria-orientation': 'horizontal'})
  const {least, greatest, marks} = scale(series, periods.length, isWhole)
  let chosen = null
  let cursor = null
  let x = () => 0

  /// - Parameter index: of a period; `null` for the whole span.
  function choose(index) {
    chosen = index === null ? null : Math.min(Math.max(index, 0), last)
    const name = chosen === null ? whole : periods[chosen].long
    const values = series.map((one) => [one, ...told(one, chosen)])
    picture.setAttribute('aria-valuenow', chosen ?? last)
    picture.setAttribute('aria-valuetext', `${name}: ${values.map(([, ...words]) => words.join(' ')).join(', ')}`)
    readout.replaceChildren(el('span', null, name), ...values.map(([one, word, value]) =>
      el('span', null, svg('svg', {viewBox: '0 0 10 10'}, swatch(one)), `${word} `, el('strong', null, value))))
    if (!cursor) return
    cursor.setAttribute('visibility', chosen === null ? 'hidden' : 'visible')
    for (const end of ['x1', 'x2']) cursor.setAttribute(end, x(chosen ?? last))
  }

  function draw() {
    const width = picture.clientWidth
    if (width === 0) return
    const left = Math.max(...marks.map((mark) => axis(Math.abs(mark)).length)) * 7 + 8
    const pitch = (width - left) / periods.length
    x = (index) => Math.round((left + (index + 0.5) * pitch) * 10) / 10
    const y = (value) => Math.round((top + (greatest - value) / (greatest - least) * (height - top - bottom)) * 10) / 10
    const shapes = marks.map((mark) => [
      svg('line', {class: mark === 0 ? 'base' : 'grid', x1: left, x2: width, y1: y(mark), y2: y(mark)}),
      svg('text', {x: left - 6, y: y(mark) + 4, 'text-anchor': 'end'}, axis(Math.abs(mark))),
    ])
    const thick = Math.max(1, Math.min(pitch * 0.7, 26))
    for (let index = 0; index <= last; index += 1) {
      let [up, down] = [0, 0]
      for (const one of series) {
        const value = one.values[index]
        if (one.kind === 'line' || value === 0) continue
        const from = one.kind === 'bar' ? up : down - value
        shapes.push(svg('rect', {class: `fill-${one.tone}`, x: x(index) - thick / 2, width: thick, y: y(from + value),
          height: Math.max(1, y(from) - y(from + value))}))
        if (one.kind === 'bar') up += value
        else down -= value
      }
    }
    for (const one of series.filter(({kind}) => kind === 'line')) {
      shapes.push(svg('path', {class: `line line-${one.tone}`, d: path(one.values, x, y)}))
    }
    // As many dates as there is room for, the last one always.
    const gap = Math.max(1, Math.ceil(76 / pitch))
    for (let index = last; index >= 0; index -= gap) {
      const middle = Math.min(Math.max(x(index), left + 20), width - 24)
      shapes.push(svg('text', {x: middle, y: height - 4, 'text-anchor': 'middle'}, periods[index].short))
    }
    cursor = svg('line', {class: 'cursor', y1: top, y2: height - bottom})
    picture.replaceChildren(svg('svg', {viewBox: `0 0 ${width} ${height}`, 'aria-hidden': 'true'}, shapes, cursor))
    choose(chosen)
  }

  function point(event) {
    const box = picture.getBoundingClientRect()
    const [first, second] = [x(0), x(1)]
    const pitch = last === 0 ? box.width : second - first
    choose(Math.round((event.clientX - box.left - first) / pitch))
  }

  picture.addEventListener('pointermove', point)
  picture.addEventListener('pointerdown', point)
  picture.addEventListener('pointerleave', () => { if (document.activeElement !== picture) choose(null) })
  picture.addEventListener('keydown', (event) => {
    const from = chosen ?? last
    const steps = {ArrowLeft: from - 1, ArrowDown: from - 1, ArrowRight: from + 1, ArrowUp: from + 1, Home: 0, End: last,
      PageUp: from - 7, PageDown: from + 7, Escape: null}
    if (!(event.key in steps)) return
    event.preventDefault()
    choose(steps[event.key])
  })
  picture.addEventListener('blur', () => choose(null))
  choose(null)
  const element = el('div', {class: 'chart'}, readout, picture,
    el('details', null, el('summary', null, 'As a table'),
      table(name, [periods[0].unit, ...series.map((one) => one.name)],
        periods.map((period, index) => [el('time', {datetime: period.from}, period.long),
          ...series.map((one) => number(one.values[index] ?? '', format(one.values[index])))]).reverse())))
  return {element, draw}
}

/// A line through the values that there are; one between two gaps is a point.
function path(values, x, y) {
  let d = ''
  values.forEach((value, index) => {
    if (value === null) return
    const isFirst = index === 0 || values[index - 1] === null
    const isLast = index === values.length - 1 || values[index + 1] === null
    d += `${isFirst ? 'M' : 'L'}${x(index)} ${y(value)}${isFirst && isLast ? 'h0.1' : ''}`
  })
  return d
}

/// A small line without axes, of values of which some may be `null`; nothing where there are fewer than two.
export function sparkline(values) {
  const known = values.filter((value) => value !== null)
  if (known.length < 2) return null
  const [least, greatest] = [Math.min(0, ...known), Math.max(...known)]
  const round = (value) => Math.round(value * 100) / 100
  const d = path(values, (index) => round(index / (values.length - 1) * 100),
    (value) => round(26 - (greatest === least ? 0 : (value - least) / (greatest - least) * 24)))
  return svg('svg', {class: 'spark', viewBox: '0 0 100 28', preserveAspectRatio: 'none', 'aria-hidden': 'true'},
    svg('path', {class: 'line line-accent', d}))
}

const swatch = (one) => one.kind === 'line' ? svg('path', {class: `line line-${one.tone}`, d: 'M0 5h10'})
  : svg('rect', {class: `fill-${one.tone}`, x: 1, y: 1, width: 8, height: 8, rx: 1})
