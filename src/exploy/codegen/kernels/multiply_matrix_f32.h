/* Rows of x times a matrix, plus a bias. Each result is one sum in the order of the inputs. */
static inline void exploy_multiply_matrix_f32(int32_t rows, int32_t inner, int32_t columns, const float *restrict x,
    const float *restrict weights, const float *restrict bias, float *restrict y)
{
  for (int32_t i = 0; i < rows; i++) {
    for (int32_t j = 0; j < columns; j++) {
      y[(i * columns) + j] = bias[j];
    }
    for (int32_t k = 0; k < inner; k++) {
      for (int32_t j = 0; j < columns; j++) {
        y[(i * columns) + j] += x[(i * inner) + k] * weights[(k * columns) + j];
      }
    }
  }
}
